"""Run one training step at a time, from the same state, and keep what it did."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from encamp.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one training step left behind; every tensor is a copy.

    `tensors` has "loss", "grad NAME" for each parameter (None where it got none),
    "buffer NAME" for each buffer and "random state DEVICE".
    """

    tensors: Mapping[str, torch.Tensor | None]


@dataclass(slots=True)
class TrainingRun:
    """A model with its inputs, and its state to go back to.

    `step` maps the inputs to the loss, or to something that holds it.
    """

    model: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    seed: int = 0
    _start: dict[str, torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        """Remember the state that every run starts from."""
        self._start = {k: t.detach().clone() for k, t in self._state().items()}

    def reset(self) -> None:
        """Go back to the first state, with no gradient and a fresh random stream."""
        with torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(self._start[name])
        self.clear_gradients()
        torch.manual_seed(self.seed)

    def clear_gradients(self) -> None:
        """Drop every gradient, as `zero_grad(set_to_none=True)` does."""
        for _, tensor in self._leaves():
            tensor.grad = None

    def step(self, compiled: Callable[..., Any]) -> torch.Tensor:
        """Run one forward and backward and return the loss."""
        output = compiled(*self.args, **self.kwargs)
        loss = loss_of(output)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def results(self, compiled: Callable[..., Any], steps: int) -> list[StepResult]:
        """Run steps in a row from the first state and keep what each one did."""
        self.reset()
        kept = []
        for _ in range(steps):
            self.clear_gradients()
            kept.append(self._result(self.step(compiled)))
        return kept

    def timed(self, compiled: Sequence[Callable[..., Any]], rounds: int) -> list[int]:
        """Return each step's median duration in ns, the steps taking turns."""
        taken: list[list[int]] = [[] for _ in compiled]
        for _ in range(rounds):
            for step, durations in zip(compiled, taken, strict=True):
                self.reset()
                started = time.perf_counter_ns()
                self.step(step)
                self._finish()
                durations.append(time.perf_counter_ns() - started)
        return [int(statistics.median(durations)) for durations in taken]

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @property
    def device(self) -> torch.device:
        """Return the device the step runs on."""
        tensors = [*self._state().values(), *self._inputs()]
        return tensors[0].device if tensors else torch.device("cpu")

    def _inputs(self) -> list[torch.Tensor]:
        leaves = tree_leaves((tuple(self.args), dict(self.kwargs)))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _state(self) -> dict[str, torch.Tensor]:
        if not isinstance(self.model, torch.nn.Module):
            return {}
        return {**_parameters(self.model), **dict(self.model.named_buffers())}

    def _leaves(self) -> list[tuple[str, torch.Tensor]]:
        named = (
            _parameters(self.model) if isinstance(self.model, torch.nn.Module) else {}
        )
        inputs = {
            f"input {i}": t for i, t in enumerate(self._inputs()) if t.requires_grad
        }
        return [*named.items(), *inputs.items()]

    def _result(self, loss: torch.Tensor) -> StepResult:
        kept: dict[str, torch.Tensor | None] = {"loss": loss.clone()}
        for name, leaf in self._leaves():
            kept[f"grad {name}"] = None if leaf.grad is None else leaf.grad.clone()
        if isinstance(self.model, torch.nn.Module):
            for name, buffer in self.model.named_buffers():
                kept[f"buffer {name}"] = buffer.detach().clone()
        kept["random state cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            state = torch.cuda.get_rng_state(self.device)
            kept[f"random state {self.device}"] = state
        return StepResult(kept)


def loss_of(output: Any) -> torch.Tensor:  # noqa: ANN401 -- whatever a model returns
    """Return the loss in a step's output: itself, its `.loss`, or its one scalar.

    Raises:
        UnsupportedError: there is no one scalar that requires a gradient.

    """
    named = getattr(output, "loss", None)
    if isinstance(named, torch.Tensor):
        return named
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    scalars = [leaf for leaf in leaves if leaf.numel() == 1 and leaf.requires_grad]
    if len(scalars) != 1:
        msg = (
            f"a step returns its loss, one scalar that requires a gradient; this one"
            f" returned {type(output).__name__} with {len(scalars)} such scalars."
            " Compute the loss inside the step: only what is inside is planned"
        )
        raise UnsupportedError(msg)
    return scalars[0]


def _parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.named_parameters())
