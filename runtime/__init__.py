"""Run a planned training step: bind, rewrite, measure and verify."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .applying import apply
    from .verification import verify

__all__ = ["apply", "verify"]

_HOMES = {"apply": ".applying", "verify": ".verification"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
