"""Bind a plan to the step in hand: structure binds, replay decides.

A plan names ops by index, so it can be laid over any graph of its structure. Whether
it may run is decided by replaying it on the graph in hand, with that graph's own
bytes and workspaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from encamp import fingerprint
from encamp.budget import budget_bytes
from encamp.check import check
from encamp.errors import StalePlanError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import Options, solve
from encamp.replay import Timeline, replay
from encamp.units import format_bytes
from encamp.wire import read_plan

from .options import OnStale, StepOptions


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan and what it means on the graph in hand."""

    plan: Plan
    timeline: Timeline
    limit_bytes: int
    """The peak this step may have: its budget less its reserve."""
    reserve_bytes: int = 0

    @property
    def room_bytes(self) -> int:
        """What the budget leaves beside the planned peak."""
        return self.limit_bytes + self.reserve_bytes - self.timeline.peak_bytes


def bind(graph: CostGraph, options: StepOptions) -> BoundPlan:
    """Return the plan to run for `graph`: the given one, or a new one.

    Raises:
        StalePlanError: the given plan is of another structure, or its peak on this
            graph is over the budget, and `options.on_stale` is "error".
        InfeasibleError: no schedule fits the budget.
        NoPlanError: the time limit came before any plan.

    """
    if options.plan is None:
        return _solved(graph, options, options.budget)
    plan = _read(options.plan)
    try:
        return laid_over(graph, plan, options)
    except StalePlanError:
        if options.on_stale != OnStale.REPLAN:
            raise
        budget = plan.budget_bytes if options.budget is None else options.budget
        return _solved(graph, options, budget)


def laid_over(
    graph: CostGraph, plan: Plan, options: StepOptions | None = None
) -> BoundPlan:
    """Lay a plan over a graph of its structure and replay it there.

    Raises:
        StalePlanError: see `bind`.

    """
    _require_structure(graph, plan)
    timeline = replay(graph, plan.steps)
    limit, reserve = plan.budget_bytes, plan.reserve_bytes
    if options is not None and options.budget is not None:
        limit = budget_bytes(graph, options.budget)
        reserve = budget_bytes(graph, options.reserve)
    problems = check(graph, plan.steps)
    if problems:
        msg = f"the plan for {plan.graph.name!r} cannot run: {problems[0].message}"
        raise StalePlanError(msg)
    if timeline.peak_bytes > limit - reserve:
        _refuse_peak(graph, plan, timeline, limit - reserve)
    return BoundPlan(plan, timeline, limit - reserve, reserve)


def _read(plan: Plan | str | PathLike[str]) -> Plan:
    return plan if isinstance(plan, Plan) else read_plan(plan)


def _solved(
    graph: CostGraph, options: StepOptions, budget: str | int | None
) -> BoundPlan:
    plan = solve(
        graph,
        budget_bytes(graph, 0 if budget is None else budget),
        reserve_bytes=budget_bytes(graph, options.reserve),
        options=Options(
            seed=options.seed, time_limit_s=options.time_limit_s, rules=options.rules
        ),
    )
    limit = plan.budget_bytes - plan.reserve_bytes
    timeline = replay(graph, plan.steps)
    return BoundPlan(plan, timeline, limit, plan.reserve_bytes)


def _require_structure(graph: CostGraph, plan: Plan) -> None:
    if fingerprint.structure(graph) == plan.graph.structure:
        return
    difference = fingerprint.difference_from(plan.outline, graph)
    where = difference or "the outputs of the two steps differ"
    msg = (
        f"the plan was made for another step, {plan.graph.name!r}: {where}\n"
        "Plan this step again, or pass on_stale='replan'"
    )
    raise StalePlanError(msg)


def _refuse_peak(graph: CostGraph, plan: Plan, timeline: Timeline, limit: int) -> None:
    op = graph.ops[timeline.steps[timeline.peak_step]]
    place = f" in {op.module}" if op.module else ""
    msg = (
        f"the plan peaks at {format_bytes(timeline.peak_bytes)} on this step (at"
        f" {op.name}{place}), over the {format_bytes(limit)} it may take; it was made"
        f" for a step where it peaks at {format_bytes(plan.peak_bytes)}. Plan this"
        " step again, or pass on_stale='replan'"
    )
    raise StalePlanError(msg)
