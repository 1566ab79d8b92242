"""Bind a plan to the step in hand: structure binds, replay decides.

A plan names ops by index, so it can be laid over any graph of its structure. Whether
it may run is decided by replaying it on the graph in hand, with that graph's own
bytes and workspaces.

A plan that is to come from a folder or a service is looked for by the first rank, and
all ranks run what it found or made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from encamp import fingerprint
from encamp.budget import budget_bytes
from encamp.check import check
from encamp.errors import (
    EncampError,
    MissingPlanError,
    NoPlanError,
    ServiceError,
    StalePlanError,
    WireError,
)
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import Options, solve
from encamp.replay import Timeline, replay
from encamp.units import format_bytes
from encamp.wire import plan_from_json, plan_to_json, read_plan

from .options import OnMiss, OnStale, StepOptions, texts
from .ranks import from_first, require_agreement
from .sources import FolderPlans, PlanSource, source_at

log = logging.getLogger(__name__)

_MISSES = (MissingPlanError, NoPlanError, ServiceError, StalePlanError, WireError)
"""What says that a source has no plan for a step; a service may be of another version
that does not read its graph."""
_TOLD: set[tuple[str, type[EncampError]]] = set()
"""Which sources had no plan, and why, as far as it was told."""


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
        MissingPlanError: there is none in `options.plans`, and `options.on_miss` is
            "error".
        ServiceError: `options.server` refuses or does not answer, and `on_miss` is
            "error".

    """
    if options.has_source:
        return _sourced(graph, options)
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


def _sourced(graph: CostGraph, options: StepOptions) -> BoundPlan:
    """Return the plan that the first rank finds or makes, bound on every rank."""
    text, fits = from_first(lambda: _found(graph, options))
    plan = plan_from_json(text, source="the plan of rank 0")
    bound, problem = None, None
    try:
        bound = laid_over(graph, plan, options if fits else None)
    except StalePlanError as error:
        problem = str(error)
    require_agreement(problem)
    assert bound is not None  # noqa: S101 - there was no problem
    return bound


def _found(graph: CostGraph, options: StepOptions) -> tuple[str, bool]:
    """Return a plan's document, and whether it keeps to the budget."""
    source = _source(options)
    try:
        plan = source.find(
            graph,
            budget_bytes=_bytes(graph, options.budget),
            reserve_bytes=_bytes(graph, options.reserve),
            seed=options.seed,
            time_limit_s=options.time_limit_s,
            keep=tuple(texts(options.keep)),
            recompute=tuple(texts(options.recompute)),
        )
        laid_over(graph, plan, options)
    except _MISSES as error:
        return _missed(graph, options, error)
    return plan_to_json(plan), True


def _missed(
    graph: CostGraph, options: StepOptions, error: EncampError
) -> tuple[str, bool]:
    """Do what is asked for where there is no plan, and say so once."""
    if options.on_miss == OnMiss.ERROR:
        raise error
    if options.on_miss == OnMiss.PLAN:
        _tell_once(options, error, "It is planned here instead")
        return plan_to_json(_solved(graph, options, options.budget).plan), True
    unplanned = replay(graph).peak_bytes
    budget = format_bytes(_bytes(graph, options.budget))
    peak = f"at a peak of {format_bytes(unplanned)}; the budget is {budget}"
    _tell_once(options, error, f"The step runs unplanned, {peak}")
    everything_once = solve(graph, unplanned)
    return plan_to_json(everything_once), False


def _source(options: StepOptions) -> PlanSource:
    if options.plans is not None:
        return FolderPlans(Path(options.plans))
    return source_at(str(options.server), options.key_file)


def _bytes(graph: CostGraph, amount: str | int | None) -> int:
    return budget_bytes(graph, 0 if amount is None else amount)


def _tell_once(options: StepOptions, error: EncampError, what: str) -> None:
    """Warn of a plan that is missing: once for a reason, not for every step."""
    where = str(options.plans if options.server is None else options.server)
    if (where, type(error)) not in _TOLD:
        _TOLD.add((where, type(error)))
        log.warning("no plan from %s: %s. %s", where, error, what)


def _read(plan: Plan | str | PathLike[str]) -> Plan:
    return plan if isinstance(plan, Plan) else read_plan(plan)


def _solved(
    graph: CostGraph, options: StepOptions, budget: str | int | None
) -> BoundPlan:
    plan = solve(
        graph,
        _bytes(graph, budget),
        reserve_bytes=_bytes(graph, options.reserve),
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
