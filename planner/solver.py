"""Solve a cost graph for the shortest schedule under a byte budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from encamp.check import check
from encamp.errors import EncampError, InfeasibleError, NoPlanError, PeakSite
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.replay import replay
from encamp.units import format_bytes

from . import stages
from .annealing import may_reorder, search_orders, squeeze_orders
from .bounds import Bound
from .clock import Cancel, Clock
from .incumbent import Incumbent
from .minimum import Floor, floor_of, squeeze
from .options import Options
from .progress import Listener, Progress
from .remedies import Remedy, remedies
from .replay_fast import peak
from .result import peak_site, plan_of, site, where
from .start import unplanned
from .task import Task

_LAST_PROGRAMS = 2
"""Programs after the relaxations that may end unsolved."""
UNBOUNDED = 2**61
"""More bytes than any step holds, and fewer than one that breaks a rule seems to."""
_SECONDS_TO_EXPLAIN = 20.0
_LEAST_S_TO_EXPLAIN = 0.5


@dataclass(frozen=True, slots=True)
class MinBudget:
    """The smallest budget a plan was found for, and the proof below it."""

    budget_bytes: int
    bound_bytes: int
    """No schedule fits fewer bytes."""
    plan: Plan
    site: PeakSite
    """The op at the peak of the plan, and the largest values live there."""
    bound_site: PeakSite
    """The op at which the bound was proved, and its own largest values."""
    remedies: tuple[Remedy, ...] = ()
    """What would lower it, most useful first."""


def solve(
    graph: CostGraph,
    budget_bytes: int,
    *,
    reserve_bytes: int = 0,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Listener | None = None,
    cancel: Cancel | None = None,
    start: Sequence[int] | None = None,
    incumbent: Incumbent | None = None,
) -> Plan:
    """Return the shortest plan found whose total peak fits a budget.

    The budget is the peak in bytes, residents included, less `reserve_bytes`. The
    plan carries a proven lower bound; it is optimal if its duration equals that. At a
    limit of the options, or once `cancel` is set, it is the best plan so far.
    `start` is a schedule known from before: the plan is no worse, if that one fits.
    `incumbent` shows the best plan while the solve goes on.

    Raises:
        OptionError: a rule of the options cannot be followed.
        InvalidPlanError: `start` cannot be replayed on the graph.
        InfeasibleError: no schedule fits (proven), or none was found; it carries the
            smallest budget that a plan was found for.
        NoPlanError: the end came before a plan that fits.

    Time grows about quadratically with the number of ops, within the time limit.

    """
    task = Task.of(graph, options, cancel)
    under_way = task.begin(budget_bytes - reserve_bytes, progress)

    def best() -> Plan:
        return plan_of(
            task, under_way, budget_bytes=budget_bytes, reserve_bytes=reserve_bytes
        )

    if incumbent is not None:
        incumbent.follow(lambda: best() if _can_be_shown(under_way) else None)
    if start is not None:
        _begin_from(task, under_way, start)
    infeasible = _search(task, under_way)
    if under_way.best is None:
        raise _refusal(task, under_way, infeasible, budget_bytes, reserve_bytes)
    return best()


def _can_be_shown(progress: Progress) -> bool:
    """Return whether there is a plan that no search is needed to describe."""
    return progress.best is not None and progress.options.robust is None


def _begin_from(task: Task, progress: Progress, start: Sequence[int]) -> None:
    """Offer a schedule from before, if it obeys the rules.

    Raises:
        InvalidPlanError: it cannot be replayed on the graph.

    """
    timeline = replay(task.graph, start)
    if not check(task.obedience.graph, start) and not task.obedience.broken_by(
        timeline
    ):
        progress.offer(np.array(start, dtype=np.int64))


def min_budget(
    graph: CostGraph,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Listener | None = None,
    cancel: Cancel | None = None,
) -> MinBudget:
    """Return the smallest budget found to be feasible, and the proof below it.

    The search is a heuristic; between the bound and the budget nothing is known. It
    ends as `solve` does, with the smallest budget so far.

    Raises:
        OptionError: a rule of the options cannot be followed.
        NoPlanError: the end came before a plan that obeys the rules.

    """
    task = Task.of(graph, options, cancel)
    found = smallest(task, task.begin(UNBOUNDED, progress))
    return replace(found, remedies=remedies(task, replay(graph, found.plan.steps)))


def smallest(task: Task, under_way: Progress) -> MinBudget:
    """Return the smallest budget of a task that is found within a clock's limits.

    Raises:
        NoPlanError: the end came before a plan that obeys the rules.

    """
    under_way.begin("floor")
    floor = floor_of(task.cuts, under_way)
    steps = squeeze(task.cuts, under_way, floor)
    if may_reorder(under_way):
        steps = squeeze_orders(under_way, steps, floor.least_bytes)
    under_way.budget = min(int(peak(task.problem, steps)), UNBOUNDED)
    if not under_way.offer(steps):
        raise _no_plan(task, under_way)
    if task.options.fill and not under_way.clock.is_over():
        filled = stages.fill_within(under_way, steps)
        if under_way.offer(filled):
            # What is recomputed less often may leave the peak lower as well.
            under_way.budget = int(peak(task.problem, filled))
    if task.options.bound and not under_way.clock.is_over():
        stages.prove_bound(task.cuts, under_way)
    plan = plan_of(task, under_way, budget_bytes=under_way.budget)
    return MinBudget(
        budget_bytes=plan.budget_bytes,
        bound_bytes=floor.least_bytes,
        plan=plan,
        site=peak_site(task.graph, replay(task.graph, plan.steps)),
        bound_site=_floor_site(task.graph, floor),
    )


def _search(task: Task, progress: Progress) -> Bound | None:
    """Run the stages; return the proof if the budget turns out infeasible."""
    options, problem = progress.options, task.problem
    if progress.offer(unplanned(problem)):
        progress.begin("unplanned")
        return None
    found = stages.prove_bound(task.cuts, progress) if options.bound else None
    if found is not None and found.added_ns is None:
        return found
    stages.start_repair_fill(task.cuts, found, progress)
    if options.bound and progress.best is None:
        # The floor costs more than the cuts at the budget, and proves more.
        floor = floor_of(task.cuts, progress)
        if floor.least_bytes > progress.budget:
            return Bound(None, floor.op, least_bytes=floor.least_bytes)
    if may_reorder(progress) and not progress.done:
        search_orders(progress)
    if progress.best is None:
        _squeeze_in(task, progress)
    if options.bound and not progress.done and progress.keeps_order:
        stages.prove_given(task.cuts, progress)
    first = found.op if found is not None else problem.num_forward
    _search_on(
        progress, stages.first_moments(progress, min(first, problem.num_ops - 1))
    )
    return None


def _search_on(progress: Progress, moments: list[int]) -> None:
    """Solve integer programs; where the gap stays wide relax larger ones; search.

    A first walk comes before the programs: it is short, and may find at once what they
    find last. The relaxations tell which moments the last programs should look at.
    """
    options = progress.options
    if options.local_search and progress.wide:
        stages.search_locally(progress, walks=1)
    if options.integer_program and not progress.closed:
        moments = stages.solve_programs(progress, moments)
        if options.relaxation and moments and progress.wide:
            moments = stages.relax_programs(progress, moments)
        for _ in range(_LAST_PROGRAMS):
            if moments and progress.wide:
                moments = stages.solve_programs(progress, moments)
    if options.local_search and progress.keeps_order and not progress.done:
        stages.search_locally(progress)


def _squeeze_in(task: Task, progress: Progress) -> None:
    """Squeeze for a plan where repair at the budget found none.

    It goes before the programs, which without a plan may take all the time there is.
    """
    goal = Floor(progress.budget, task.problem.num_ops - 1, "")
    steps = squeeze(task.cuts, progress, goal)
    if progress.offer(steps) and progress.options.fill:
        progress.offer(stages.fill_within(progress, steps))


def _refusal(
    task: Task,
    progress: Progress,
    infeasible: Bound | None,
    budget_bytes: int,
    reserve_bytes: int,
) -> EncampError:
    if infeasible is None and progress.clock.is_over():
        return _no_plan(task, progress)
    proved = infeasible.least_bytes if infeasible else 0
    try:
        found = smallest(task, task.begin(UNBOUNDED, None, _to_explain(task)))
    except NoPlanError as nothing:
        return nothing
    bound = max(found.bound_bytes, proved)
    return InfeasibleError(
        _explanation(task, found, bound, budget_bytes, reserve_bytes),
        budget_bytes=budget_bytes,
        bound_bytes=bound + reserve_bytes,
        smallest_bytes=found.budget_bytes + reserve_bytes,
        site=found.site,
    )


def _to_explain(task: Task) -> Clock:
    """Return the clock of the search for what would fit, ended by the same limits."""
    clock = task.clock
    if clock.work_left is not None:
        return Clock(None, max(clock.work_left, 0), clock.cancel)
    left = max(_LEAST_S_TO_EXPLAIN, min(_SECONDS_TO_EXPLAIN, clock.left))
    return Clock(left, None, clock.cancel)


def _no_plan(task: Task, progress: Progress) -> NoPlanError:
    within = ""
    if progress.budget < UNBOUNDED:
        within = f" within {format_bytes(progress.budget)}"
    if task.options.rules:
        within += " that obeys the rules"
    msg = (
        f"no plan of {task.graph.name!r}{within} was found {progress.clock.end};"
        " give it more time or memory"
    )
    return NoPlanError(msg)


def _explanation(
    task: Task,
    smallest: MinBudget,
    bound: int,
    budget_bytes: int,
    reserve_bytes: int,
) -> str:
    """Say that nothing fits, what would, and what stands in the way."""
    graph = task.graph
    budget = format_bytes(budget_bytes)
    if reserve_bytes:
        budget += f" less {format_bytes(reserve_bytes)} in reserve"
    verdict = "fits" if bound > budget_bytes - reserve_bytes else "was found within"
    under = " under its rules" if task.options.rules else ""
    needed = smallest.budget_bytes + reserve_bytes
    lines = (
        f"no schedule of {graph.name!r}{under} {verdict} {budget};",
        f"the smallest feasible budget found is {needed} bytes,",
        f"{format_bytes(needed)}; proven: none fits less than",
        f"{format_bytes(bound + reserve_bytes)} (at {where(smallest.bound_site)}).",
        f"Its peak is at {where(smallest.site)},",
        f"where the largest values are {'; '.join(smallest.site.values)},",
        f"beside {format_bytes(graph.resident_bytes)} held for the whole step.",
        "Raise the budget, or make the step smaller (its batch, its sequence).",
    )
    return " ".join(lines)


def _floor_site(graph: CostGraph, floor: Floor) -> PeakSite:
    op = graph.ops[floor.op]
    values = graph.outputs if floor.method == "outputs" else (*op.inputs, *op.outputs)
    passing = [value for value in values if not graph.values[value].resident]
    return site(graph, op, passing, floor.least_bytes)
