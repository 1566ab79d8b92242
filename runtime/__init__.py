"""Run a planned training step: bind, rewrite, measure and verify."""

from __future__ import annotations

from .apply import apply
from .verify import verify

__all__ = ["apply", "verify"]
