"""Plan a step for a compiler that fuses: solve, compile, measure, correct.

A plan names operators; Inductor fuses them, so that most of what the plan counts is
never in memory. Schedules are solved for on the operators and judged on the fused
view. What the compiled step takes is then measured before training does; where that
is over the budget, the budget to solve for is lowered by the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import Options, solve
from encamp.replay import replay
from encamp.tracer.fused import Fusion
from encamp.units import format_bytes, parse_budget

from .options import StepOptions

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class HintedPlan:
    """A schedule for a compiler that fuses, and its peak on the fused view."""

    plan: Plan
    peak_bytes: int


def hinted_limit(
    graph: CostGraph, fusion: Fusion, options: StepOptions
) -> tuple[int, int]:
    """Return the peak that the budget less its reserve allows, and that reserve.

    "peak*0.6" is of the peak on the fused view that keeps everything.

    Raises:
        UnitError: see `encamp.budget.budget_bytes`.

    """
    device = graph.meta.get("device_memory_bytes")
    unplanned = fusion.peak_bytes(range(len(graph.ops)))

    def parsed(text: str | int) -> int:
        memory = device if isinstance(device, int) else None
        return parse_budget(text, unplanned_peak=unplanned, device_bytes=memory)

    reserve = parsed(options.reserve)
    return parsed(0 if options.budget is None else options.budget) - reserve, reserve


def hinted_plan(
    graph: CostGraph, fusion: Fusion, options: StepOptions, limit_bytes: int
) -> HintedPlan:
    """Return the shortest schedule found whose fused peak is within `limit_bytes`.

    Its operators may take more, by what fusing saves, which depends on the schedule:
    the budget to solve for is bisected between the limit and the unplanned peak.

    Raises:
        NoPlanError: none was found.

    """
    low, high = limit_bytes, replay(graph).peak_bytes
    unplanned = _solved(graph, fusion, options, high)
    if unplanned is not None and unplanned.peak_bytes <= limit_bytes:
        return unplanned
    best: HintedPlan | None = None
    target = low
    for _ in range(_ROUNDS):
        found = _solved(graph, fusion, options, target)
        if found is not None and found.peak_bytes <= limit_bytes:
            best = found if best is None or _shorter(found, best) else best
            low = target
        elif found is None and best is None:
            low = target  # the operators alone do not fit there: look above
        else:
            high = target
        target = (low + high) // 2
    if best is None:
        raise _not_found(graph, limit_bytes)
    return best


def _solved(
    graph: CostGraph, fusion: Fusion, options: StepOptions, target: int
) -> HintedPlan | None:
    limit = options.time_limit_s
    chosen = Options(
        seed=options.seed,
        time_limit_s=None if limit is None else limit / _ROUNDS,
        rules=options.rules,
    )
    try:
        plan = solve(graph, target, options=chosen)
    except (InfeasibleError, NoPlanError):
        return None
    return HintedPlan(plan, fusion.peak_bytes(plan.steps))


def _shorter(left: HintedPlan, right: HintedPlan) -> bool:
    return left.plan.duration_ns < right.plan.duration_ns


def _not_found(graph: CostGraph, limit: int) -> NoPlanError:
    msg = (
        f"no schedule of {graph.name!r} was found whose peak is within"
        f" {format_bytes(limit)} as Inductor fuses it. Raise the budget, give the"
        " planner more time, or plan for compiler='eager' or 'lite', whose peaks are"
        " those of the plan"
    )
    return NoPlanError(msg)
