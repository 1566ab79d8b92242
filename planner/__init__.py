"""Plan a cost graph: solve, prove and compare schedules under a byte budget.

The names below are loaded when first used, so that importing this package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import Cancel
    from .frontier import Frontier, sweep
    from .incumbent import Incumbent
    from .options import Event, Options
    from .rules import Action, Rule, Trait
    from .solver import MinBudget, min_budget, solve

__all__ = [
    "Action",
    "Cancel",
    "Event",
    "Frontier",
    "Incumbent",
    "MinBudget",
    "Options",
    "Rule",
    "Trait",
    "min_budget",
    "solve",
    "sweep",
]

_HOMES = {
    "Action": "rules",
    "Cancel": "clock",
    "Event": "options",
    "Frontier": "frontier",
    "Incumbent": "incumbent",
    "MinBudget": "solver",
    "Options": "options",
    "Rule": "rules",
    "Trait": "rules",
    "min_budget": "solver",
    "solve": "solver",
    "sweep": "frontier",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
