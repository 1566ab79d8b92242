"""Run a compiled step once before training does, and measure its peak.

What a compiler fuses and reorders changes a step's memory, so a plan that it runs is a
hint. The step is called on the very tensors it is compiled for, parameters without a
copy; what it would overwrite is cloned, gradients go nowhere, and the random streams
are put back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_leaves

from encamp.tracer.isolation import isolated
from encamp.tracer.meter import best_meter


def rehearsed_peak(
    run: Callable[..., Any],
    inputs: Sequence[Any],
    overwritten: Collection[int],
    device: torch.device,
) -> int | None:
    """Return the peak of a forward and backward in bytes beyond what is resident.

    Args:
        run: the compiled step; takes flat inputs and returns flat outputs.
        inputs: what it is compiled for.
        overwritten: which inputs it writes into.
        device: where it runs.

    Returns:
        The peak, or None where the inputs are fake: nothing can be run.

    """
    if any(isinstance(given, FakeTensor) for given in inputs):
        return None
    with _outside(device):
        stand_ins = [
            _stand_in(given, copied=index in overwritten)
            for index, given in enumerate(inputs)
        ]
        _train(run, stand_ins)  # kernels load, libraries pick their algorithms
        gc.collect()
        return best_meter(device).measure(lambda: _train(run, stand_ins)).peak_bytes


@contextmanager
def _outside(device: torch.device) -> Iterator[None]:
    """Leave the compilation in progress, and record gradients."""
    with unset_fake_temporarily(), isolated(device), torch.enable_grad():
        yield


def _stand_in(given: Any, *, copied: bool) -> Any:  # noqa: ANN401 -- any input
    if not isinstance(given, torch.Tensor):
        return given
    alias = given.detach()
    alias = alias.clone() if copied else alias
    return alias.requires_grad_(given.requires_grad)


def _train(run: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """Run the step and return its outputs and gradients: they live to its end."""
    outputs = [o for o in tree_leaves(run(*inputs)) if isinstance(o, torch.Tensor)]
    roots = [o for o in outputs if o.requires_grad]
    scalars = [o for o in roots if o.numel() == 1] or roots
    leaves = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
    ones = [torch.ones_like(o) for o in scalars]
    gradients = torch.autograd.grad(scalars, leaves, ones, allow_unused=True)
    return [outputs, gradients]
