"""The global random stream of a device: take its state, draw again from a state.

A recomputed random op must draw what its first run drew and leave the stream where
it was. The state is taken right before the first draw and kept as a tensor; a redraw
sets it, runs the op and puts the stream back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import fx

from .joint import tensors_of


def random_device(node: fx.Node) -> torch.device:
    """Return the device whose stream a random op draws from."""
    return tensors_of(node)[0].device


def random_state(device: torch.device) -> torch.Tensor:
    """Return the state of the device's stream, on the host (CUDA: no sync).

    The generator makes the tensor behind the dispatcher's back; as an operator of its
    own, dispatch modes that count memory see it.
    """
    return torch.ops.encamp.random_state(device)  # type: ignore[no-any-return]


def first_draw(
    _: torch.Tensor,
    op: Callable[..., Any],
    *args: Any,  # noqa: ANN401 -- passed through
    **kwargs: Any,  # noqa: ANN401 -- passed through
) -> Any:  # noqa: ANN401 -- whatever `op` returns
    """Run a random op for the first time, holding the state it starts from."""
    return op(*args, **kwargs)


def redraw(
    state: torch.Tensor,
    device: torch.device,
    op: Callable[..., Any],
    *args: Any,  # noqa: ANN401 -- passed through
    **kwargs: Any,  # noqa: ANN401 -- passed through
) -> Any:  # noqa: ANN401 -- whatever `op` returns
    """Run a random op from a state taken earlier; the stream stays where it is.

    The stream's own state waits outside of tensor memory, so that a redraw takes no
    more of it than a first draw.
    """
    now = bytearray(_current_state(device).numpy())
    _set_state(state, device)
    try:
        return op(*args, **kwargs)
    finally:
        _set_state(torch.frombuffer(now, dtype=torch.uint8), device)


def _current_state(device: torch.device) -> torch.Tensor:
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


@cache
def state_bytes(device: torch.device) -> int:
    """Return the bytes on `device` that a kept state takes (none for a GPU's)."""
    return 0 if device.type == "cuda" else torch.get_rng_state().nbytes


# PyTorch leaves its Library untyped; the calls are those of its documentation.
_LIBRARY: Any = torch.library.Library("encamp", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("random_state(Device device) -> Tensor")
_LIBRARY.impl("random_state", _current_state, "BackendSelect")


def _set_state(state: torch.Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
