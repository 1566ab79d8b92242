"""Answering a job with the planner: what the child process of a pool does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from encamp.errors import InfeasibleError
from encamp.graph import CostGraph
from encamp.plan import Plan, Status
from encamp.planner import (
    Action,
    Cancel,
    Event,
    Frontier,
    Incumbent,
    MinBudget,
    Options,
    Rule,
    min_budget,
    solve,
    sweep,
)
from encamp.wire import plan_fields, plan_to_json

from .job import Job, Outcome

_UNBOUNDED = 2**60
"""Budgets beyond it are none: the smallest is being looked for."""


def answer(
    job: Job,
    graph: CostGraph,
    tell: Callable[[Mapping[str, Any]], None],
    cancel: Cancel,
    incumbent: Incumbent,
) -> Outcome:
    """Solve what a job asks.

    Raises:
        EncampError: as `solve`, `sweep` and `min_budget` do, but for a plan that is
            infeasible: that is an answer.

    """
    solving = _Solving(
        job,
        graph,
        options_of(job),
        lambda event: tell(progress_document(event)),
        cancel,
    )
    if job.kind == "sweep":
        return solving.sweep()
    if job.kind == "min-budget":
        return solving.min_budget()
    return solving.plan(incumbent)


@dataclass(frozen=True, slots=True)
class _Solving:
    """A job that is being solved."""

    job: Job
    graph: CostGraph
    options: Options
    listen: Callable[[Event], None]
    cancel: Cancel

    def plan(self, incumbent: Incumbent) -> Outcome:
        """Plan for one budget; that nothing fits is an answer."""
        request, options = self.job.request, self.options
        try:
            plan = solve(
                self.graph,
                request["budget_bytes"],
                reserve_bytes=request["reserve_bytes"],
                options=options,
                progress=self.listen,
                cancel=self.cancel,
                start=self.job.start,
                incumbent=incumbent,
            )
        except InfeasibleError as error:
            proven = error.bound_bytes > error.budget_bytes
            final = proven or _is_repeatable(options, self.cancel)
            return Outcome(_infeasible(error, request["reserve_bytes"]), final=final)
        return plan_outcome(plan, options, self.cancel)

    def sweep(self) -> Outcome:
        """Plan for many budgets."""
        try:
            frontier = sweep(
                self.graph,
                self.job.request["budgets"],
                points=self.job.request["points"],
                options=self.options,
                progress=self.listen,
                cancel=self.cancel,
            )
        except InfeasibleError as error:
            return Outcome(_infeasible(error, 0), final=True)
        closed = all(_is_closed(plan, self.options) for plan in frontier.plans)
        final = closed or _is_repeatable(self.options, self.cancel)
        texts = tuple(plan_to_json(plan) for plan in frontier.plans)
        return Outcome(_frontier(frontier), texts, final=final)

    def min_budget(self) -> Outcome:
        """Look for the smallest budget."""
        options, cancel = self.options, self.cancel
        found = min_budget(
            self.graph, options=options, progress=self.listen, cancel=cancel
        )
        closed = found.budget_bytes == found.bound_bytes
        final = closed or _is_repeatable(options, cancel)
        return Outcome(_smallest(found), (plan_to_json(found.plan),), final=final)


def plan_outcome(plan: Plan, options: Options, cancel: Cancel) -> Outcome:
    """Return the outcome that a plan is."""
    result = {"status": plan.status.value, "plan": 0, "summary": plan_fields(plan)}
    final = _is_closed(plan, options) or _is_repeatable(options, cancel)
    return Outcome(result, (plan_to_json(plan),), final=final)


def options_of(job: Job) -> Options:
    """Return the planner's options for those of a job."""
    return _options(job.request["options"])


def progress_document(event: Event) -> dict[str, object]:
    """Return an event of a solve as a JSON document."""
    bounded = event.budget_bytes < _UNBOUNDED
    return {
        "stage": event.stage,
        "seconds": round(event.seconds, 3),
        "duration_ns": event.duration_ns,
        "lower_bound_ns": event.lower_bound_ns,
        "unplanned_ns": event.unplanned_ns,
        "gap": None if event.gap is None else round(event.gap, 6),
        "budget_bytes": event.budget_bytes if bounded else None,
    }


def _options(fields: Mapping[str, Any]) -> Options:
    rules = [Rule.parse(Action.KEEP, text) for text in fields["keep"]]
    rules += [Rule.parse(Action.RECOMPUTE, text) for text in fields["recompute"]]
    return Options(
        seed=fields["seed"],
        time_limit_s=fields["time_limit_s"],
        work_limit=fields["work_limit"],
        target_gap=fields["target_gap"],
        rules=tuple(rules),
        robust=fields["robust"],
        fixed_order=fields.get("fixed_order", False),
    )


def _is_closed(plan: Plan, options: Options) -> bool:
    """Return whether a search would end here whatever time it had."""
    return plan.gap <= options.target_gap or plan.status is Status.OPTIMAL


def _is_repeatable(options: Options, cancel: Cancel) -> bool:
    """Return whether the same search always ends the same: by its work alone."""
    return options.work_limit is not None and not cancel.is_set()


def _infeasible(error: InfeasibleError, reserve_bytes: int) -> dict[str, object]:
    return {
        "status": Status.INFEASIBLE.value,
        "message": str(error),
        "budget_bytes": error.budget_bytes,
        "reserve_bytes": reserve_bytes,
        "smallest_bytes": error.smallest_bytes,
        "bound_bytes": error.bound_bytes,
        "peak": None if error.site is None else asdict(error.site),
    }


def _frontier(frontier: Frontier) -> dict[str, object]:
    return {
        "status": "solved",
        "bound_bytes": frontier.bound_bytes,
        "missed_bytes": list(frontier.missed),
        "knee": frontier.knee,
        "points": [
            {"plan": position, "summary": plan_fields(plan)}
            for position, plan in enumerate(frontier.plans)
        ],
    }


def _smallest(found: MinBudget) -> dict[str, object]:
    return {
        "status": "solved",
        "budget_bytes": found.budget_bytes,
        "bound_bytes": found.bound_bytes,
        "peak": asdict(found.site),
        "bound_peak": asdict(found.bound_site),
        "remedies": [asdict(remedy) for remedy in found.remedies],
        "plan": 0,
        "summary": plan_fields(found.plan),
    }
