"""Run a planned training step: bind, rewrite, measure and verify."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .apply import apply
    from .verify import verify

__all__ = ["apply", "verify"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(f".{name}", __name__), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
