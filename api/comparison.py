"""How one plan of a step differs from another."""

from __future__ import annotations

from collections import Counter
from typing import Any

from encamp.errors import StalePlanError
from encamp.plan import Plan

_FIGURES = ("budget_bytes", "peak_bytes", "duration_ns")


def compare(first: Plan, second: Plan) -> dict[str, Any]:
    """Return the figures of two plans and the ops that run more often in one.

    `more` are the ops of which the second plan has more runs, `fewer` those of which
    it has less, as pairs of op and number of runs.

    Raises:
        StalePlanError: they are plans of different steps, so ops are not the same.

    """
    if first.graph.structure != second.graph.structure:
        msg = (
            f"the plans are of steps of another structure, {first.graph.name!r} and"
            f" {second.graph.name!r}; compare plans of one step"
        )
        raise StalePlanError(msg)
    figures = {name: _pair(first, second, name) for name in _FIGURES}
    runs, others = Counter(first.steps), Counter(second.steps)
    return {
        "same_costs": first.graph.exact == second.graph.exact,
        "same_steps": first.steps == second.steps,
        "figures": figures,
        "overhead": {"a": round(first.overhead, 6), "b": round(second.overhead, 6)},
        "gap": {"a": round(first.gap, 6), "b": round(second.gap, 6)},
        "more": _sorted(others - runs),
        "fewer": _sorted(runs - others),
    }


def _pair(first: Plan, second: Plan, name: str) -> dict[str, int]:
    a, b = getattr(first, name), getattr(second, name)
    return {"a": a, "b": b, "change": b - a}


def _sorted(runs: Counter[int]) -> list[dict[str, int]]:
    return [{"op": op, "runs": number} for op, number in sorted(runs.items())]
