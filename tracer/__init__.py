"""Capture a training step as a cost graph: the only way in from PyTorch.

Names load when they are first used, so that what needs no PyTorch (the table of
devices) is there without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tracing import trace, trace_factory

__all__ = ["trace", "trace_factory"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(".tracing", __name__), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
