"""How near to the proven bound plans of real training steps come, at every budget."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.registry import Case, Missing, Table, driver
from benchmarks.text import seconds
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.planner import Options, min_budget, solve
from encamp.replay import replay

_SHARES = (90, 80, 70, 60, 50, 40, 30, 20, 12)
_SMALL, _SMALL_S, _LARGE_S = 1000, 10.0, 20.0
"""Graphs up to so many ops get so many seconds a budget, larger ones more."""


@driver("proofs")
def proofs(cases: Sequence[Case]) -> Table:
    """Plan each graph at shares of the part of its peak that a plan can change."""
    return Table(
        title="Joint graphs at every budget",
        what=(
            "Added time / proven bound in percent of the unplanned step, at shares of"
            " the dynamic peak: the unplanned peak less what is resident, parameter"
            f" gradients included. {_SMALL_S:.0f} s a budget up to {_SMALL} ops,"
            f" {_LARGE_S:.0f} s above. Infeasible is proved; - was not found. The"
            " smallest budget is that of a plan found, and the share that none fits"
            " less of."
        ),
        columns=(
            *("graph", "ops", *(f"{share} %" for share in _SHARES)),
            *("smallest budget, %", "slowest"),
        ),
        rows=tuple(_row(case) for case in cases),
    )


def _row(case: Case) -> tuple[str, ...]:
    try:
        graph = case.graph()
    except Missing as missing:
        return case.name, f"not measured: {missing}", *("-",) * (len(_SHARES) + 2)
    limit = _SMALL_S if len(graph.ops) <= _SMALL else _LARGE_S
    options = Options(time_limit_s=limit)
    found = [_cell(graph, share, options) for share in _SHARES]
    slowest = seconds(max(taken for _, taken in found))
    cells = (cell for cell, _ in found)
    ops = f"{len(graph.ops):,}"
    return case.name, ops, *cells, _smallest(graph, options), slowest


def _cell(graph: CostGraph, share: int, options: Options) -> tuple[str, float]:
    """Return what a plan at a budget adds and must, and the seconds it took."""
    dynamic = replay(graph).peak_bytes - graph.resident_bytes
    budget = graph.resident_bytes + dynamic * share // 100
    try:
        plan = solve(graph, budget, options=options)
    except InfeasibleError as error:
        return "infeasible" if error.bound_bytes > budget else "-", 0.0
    except NoPlanError:
        return "-", options.time_limit_s or 0.0
    bound = plan.overhead - plan.gap
    return f"{100 * plan.overhead:.2f} / {100 * bound:.2f}", plan.solver.seconds


def _smallest(graph: CostGraph, options: Options) -> str:
    found, resident = min_budget(graph, options=options), graph.resident_bytes
    dynamic = replay(graph).peak_bytes - resident
    sizes = (found.budget_bytes, found.bound_bytes)
    return " / ".join(f"{100 * (size - resident) / dynamic:.2f}" for size in sizes)
