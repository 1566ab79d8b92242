"""Compare two ways to run the same training steps, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from encamp.tracer.capture import Step

from .training import StepResult, TrainingRun


def compare(
    run: TrainingRun, unplanned: Step, planned: Step, steps: int
) -> tuple[list[str], int]:
    """Return what differs, named once with its first step, and how much there was."""
    expected = run.results(unplanned, steps)
    actual = run.results(planned, steps)
    found: dict[str, str] = {}
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        for name, difference in _differences(left, right):
            found.setdefault(name, f"{name} differs in step {index + 1}: {difference}")
    return list(found.values()), len(expected[0].tensors)


def _differences(left: StepResult, right: StepResult) -> Iterator[tuple[str, str]]:
    for name, expected in left.tensors.items():
        difference = _difference(expected, right.tensors[name])
        if difference is not None:
            yield name, difference


def _difference(
    expected: torch.Tensor | None, actual: torch.Tensor | None
) -> str | None:
    """Say how two tensors differ, or None where they are the same bits."""
    if expected is None or actual is None:
        same = expected is actual
        return (
            None if same else f"{_there(expected)} unplanned, {_there(actual)} planned"
        )
    if expected.stride() != actual.stride():
        return f"strides {tuple(actual.stride())}, expected {tuple(expected.stride())}"
    if torch.equal(bits(expected), bits(actual)):
        return None
    largest = (expected.double() - actual.double()).abs().max().item()
    return f"by up to {largest:.3g}"


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements as bytes, one after another."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def _there(tensor: torch.Tensor | None) -> str:
    return "no gradient" if tensor is None else "a gradient"
