"""Models of every family: what it takes to plan them, and whether they train alike."""

from __future__ import annotations

import time
from collections.abc import Sequence

import encamp
from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent, seconds, size
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import Options, min_budget, solve
from encamp.replay import replay
from encamp.tracer.capture import capture
from encamp.tracer.costs import cost_source
from encamp.tracer.lower import lower
from encamp.tracer.tracing import made_by

_SECONDS = 2.0


@driver("zoo")
def zoo(cases: Sequence[Case]) -> Table:
    """Plan each model at half of its peak, or at the least a plan is known for."""
    return Table(
        title="The zoo",
        what=(
            "Small models from configurations with random weights, planned at 50 % of"
            " their unplanned peak, residents included, or at the smallest budget found"
            f" where no plan for half was found in {_SECONDS:.0f} s. Costs are measured"
            " on this machine; the time to capture is without measuring them. Bit for"
            " bit: loss, gradients, buffers and random state of two steps, against the"
            " captured graph."
        ),
        columns=(
            "model",
            "ops",
            "captured in",
            "unplanned peak",
            "planned peak",
            "of it",
            "longer by",
            "allocator, measured / predicted",
            "bit for bit",
        ),
        rows=tuple(_row(case) for case in cases),
    )


def _row(case: Case) -> tuple[str, ...]:
    made = made_by(case.make)
    started = time.perf_counter()
    joint = capture(*made)
    taken = time.perf_counter() - started
    costs = cost_source("measured")
    graph = lower(joint, costs, name=case.name).graph
    plan = _plan(graph)
    report = encamp.verify(case.make, plan, costs=costs, steps=2, rounds=1)
    return (
        case.name,
        f"{len(graph.ops):,}",
        seconds(taken),
        size(plan.unplanned.peak_bytes),
        size(plan.peak_bytes),
        percent(plan.peak_bytes / plan.unplanned.peak_bytes, 1),
        percent(plan.overhead),
        f"{1 + report.planned.peak.difference:.4f}",
        "all" if not report.differences else f"{len(report.differences)} differ",
    )


def _plan(graph: CostGraph) -> Plan:
    options = Options(time_limit_s=_SECONDS)
    try:
        return solve(graph, replay(graph).peak_bytes // 2, options=options)
    except (InfeasibleError, NoPlanError):
        return min_budget(graph, options=options).plan
