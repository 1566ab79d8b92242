"""Run operators on their own, whatever the caller is in the middle of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def isolated(device: torch.device) -> Iterator[None]:
    """Leave every mode of the caller's, and put its random streams back afterwards.

    Inside, tensors are real even under a FakeTensorMode, nothing records gradients,
    autocast does not cast, and draws from the global random streams of the CPU and
    of `device` leave no trace.
    """
    forked = [device] if device.type == "cuda" else []
    with (
        _disable_current_modes(),
        torch._C.DisableTorchFunction(),  # noqa: SLF001 -- no public equivalent
        torch._C._DisableAutocast(),  # noqa: SLF001 -- as AOTAutograd runs its graphs
        torch.inference_mode(mode=False),
        torch.no_grad(),
        torch.random.fork_rng(devices=forked),
    ):
        yield
