"""Notice gradients that exist before a step: they lie outside of its plan.

Where gradients are accumulated over micro-batches, those of the earlier ones stay while
the step makes its own, so that its real peak is higher by their bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch

from encamp.units import format_bytes

log = logging.getLogger(__name__)


def tell_of_gradients(run: Callable[..., Any], room_bytes: int) -> Callable[..., Any]:
    """Return `run`, a planned forward, that says once when gradients do not fit.

    Args:
        run: takes flat inputs, the parameters among them.
        room_bytes: what the budget leaves beside the planned peak, reserve included.

    """
    told = False

    def run_and_tell(*inputs: Any) -> Any:  # noqa: ANN401 -- as the graph's
        nonlocal told
        held = 0 if told else _gradient_bytes(inputs)
        if held > room_bytes:
            told = True
            _tell(held, room_bytes)
        return run(*inputs)

    return run_and_tell


def _gradient_bytes(inputs: Iterable[object]) -> int:
    """Return the bytes of the gradients that leaves among the inputs have."""
    leaves = (i for i in inputs if isinstance(i, torch.Tensor) and i.is_leaf)
    gradients = (leaf.grad for leaf in leaves)
    return sum(g.untyped_storage().nbytes() for g in gradients if g is not None)


def _tell(held: int, room_bytes: int) -> None:
    log.warning(
        "gradients of an earlier backward are accumulated: their %s lie outside of the"
        " plan, beside which the budget leaves %s. Plan with reserve=%d, or drop them"
        " before the step with zero_grad(set_to_none=True)",
        format_bytes(held),
        format_bytes(room_bytes),
        held,
    )
