"""Predicted against measured, and bit for bit, at half the peak and at the minimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import encamp
from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent, size
from encamp.errors import InfeasibleError
from encamp.plan import Plan
from encamp.planner import Options, min_budget
from encamp.replay import replay
from encamp.tracer.tracing import made_by

_SECONDS = 20.0


@driver("verify")
def verify(cases: Sequence[Case]) -> Table:
    """Verify each step at 50 % of its peak and at the smallest budget found."""
    return Table(
        title="Predicted against measured",
        what=(
            "Steps from public bug reports. Storages are what operators make, counted"
            " to the byte; the allocator's peak has the kernels' workspaces in it. Bit"
            " for bit: loss, gradients, buffers and random state of three steps. The"
            " second row of a step is the smallest budget found; no schedule is below"
            " the least possible."
        ),
        columns=(
            "step",
            "budget",
            "of the unplanned peak",
            "least possible",
            "longer by",
            "storages, measured - predicted",
            "allocator, measured / predicted",
            "bit for bit",
        ),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    graph = encamp.trace(*made_by(case.make), name=case.name)
    unplanned = replay(graph).peak_bytes
    smallest = min_budget(graph, options=Options(time_limit_s=_SECONDS))
    bound = size(smallest.bound_bytes)
    try:
        planned = encamp.plan(graph, "peak*0.5", time_limit_s=_SECONDS)
    except InfeasibleError:
        half = int(unplanned * 0.5)
        yield case.name, size(half), "50.0 %", "infeasible", *("-",) * 4
    else:
        yield _row(case, planned, "", unplanned)
    yield _row(case, smallest.plan, bound, unplanned)


def _row(case: Case, plan: Plan, bound: str, unplanned: int) -> tuple[str, ...]:
    report = encamp.verify(case.make, plan, rounds=1)
    storages, peak = report.planned.storages, report.planned.peak
    return (
        case.name,
        size(plan.budget_bytes),
        percent(plan.budget_bytes / unplanned, 1),
        bound,
        percent(plan.overhead),
        f"{storages.measured - storages.predicted:+} B",
        f"{peak.measured / peak.predicted:.4f}",
        f"{len(report.differences)} of {report.compared} differ"
        if report.differences
        else f"all {report.compared}",
    )
