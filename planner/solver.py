"""Solve a cost graph for the shortest schedule under a byte budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from encamp.errors import InfeasibleError, NoPlanError, PeakSite
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.replay import replay
from encamp.units import format_bytes

from . import stages
from .bounds import Bound, Cuts
from .minimum import Floor, floor_of, squeeze
from .options import Options
from .problem import Problem
from .progress import Clock, Listener, Progress
from .reduce import reduce, unreduced
from .replay_fast import peak
from .result import peak_site, plan_of, site, where
from .start import unplanned

_SECONDS_TO_EXPLAIN = 20.0


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


def solve(
    graph: CostGraph,
    budget_bytes: int,
    *,
    reserve_bytes: int = 0,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Listener | None = None,
) -> Plan:
    """Return the shortest plan found whose total peak fits a budget.

    The budget is the peak in bytes, residents included, less `reserve_bytes`. The
    plan carries a proven lower bound; it is optimal if its duration equals that.

    Raises:
        InfeasibleError: no schedule fits (proven), or none was found; it carries the
            smallest budget that a plan was found for.
        NoPlanError: the time limit came before a plan that fits.

    Time grows about quadratically with the number of ops, within the time limit.

    """
    problem = _problem(graph, options)
    under_way = Progress(
        problem, budget_bytes - reserve_bytes, options, _clock(options), progress
    )
    infeasible = _search(problem, under_way)
    if infeasible is None and under_way.best is None:
        _last_resort(problem, under_way)
    if under_way.best is None:
        raise _refusal(graph, under_way, infeasible, budget_bytes, reserve_bytes)
    return plan_of(
        graph,
        under_way.best,
        under_way,
        budget_bytes=budget_bytes,
        reserve_bytes=reserve_bytes,
    )


def min_budget(
    graph: CostGraph,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Listener | None = None,
) -> MinBudget:
    """Return the smallest budget found to be feasible, and the proof below it.

    The search is a heuristic; between the bound and the budget nothing is known.
    """
    problem = _problem(graph, options)
    under_way = Progress(problem, 2**62, options, _clock(options), progress)
    cuts = Cuts(problem)
    under_way.begin("floor")
    floor = floor_of(cuts, under_way)
    steps = squeeze(cuts, under_way, floor)
    under_way.budget = int(peak(problem, steps))
    under_way.offer(steps)
    if options.fill and not under_way.clock.is_over():
        under_way.offer(stages.fill_within(under_way, steps))
    if options.bound and not under_way.clock.is_over():
        stages.prove_bound(cuts, under_way)
    assert under_way.best is not None  # noqa: S101 - the schedule just offered
    plan = plan_of(graph, under_way.best, under_way, budget_bytes=under_way.budget)
    return MinBudget(
        budget_bytes=plan.budget_bytes,
        bound_bytes=floor.least_bytes,
        plan=plan,
        site=peak_site(graph, replay(graph, plan.steps)),
        bound_site=_floor_site(graph, floor),
    )


def _problem(graph: CostGraph, options: Options) -> Problem:
    return reduce(graph) if options.reduce else unreduced(graph)


def _clock(options: Options) -> Clock:
    return Clock(options.time_limit_s)


def _search(problem: Problem, progress: Progress) -> Bound | None:
    """Run the stages; return the proof if the budget turns out infeasible."""
    options = progress.options
    if progress.offer(unplanned(problem)):
        progress.begin("unplanned")
        return None
    cuts = Cuts(problem)
    found = stages.prove_bound(cuts, progress) if options.bound else None
    if found is not None and found.added_ns is None:
        return found
    stages.start_repair_fill(cuts, found, progress)
    if options.bound and not progress.done:
        stages.prove_given(cuts, progress)
    first = found.op if found is not None else problem.num_forward
    if options.integer_program and not (progress.closed or progress.clock.is_over()):
        stages.solve_programs(progress, min(first, problem.num_ops - 1))
    if options.local_search and not progress.done:
        stages.search_locally(progress)
    return None


def _last_resort(problem: Problem, progress: Progress) -> None:
    """Squeeze for a plan where repair at the budget found none."""
    cuts = Cuts(problem)
    steps = squeeze(cuts, progress, Floor(progress.budget, problem.num_ops - 1, ""))
    if progress.offer(steps) and progress.options.fill:
        progress.offer(stages.fill_within(progress, steps))


def _refusal(
    graph: CostGraph,
    progress: Progress,
    infeasible: Bound | None,
    budget_bytes: int,
    reserve_bytes: int,
) -> Exception:
    if infeasible is None and progress.clock.is_over():
        msg = (
            f"no plan of {graph.name!r} within {format_bytes(progress.budget)} was"
            f" found in {progress.clock.seconds:.0f} s; give it more time or memory"
        )
        return NoPlanError(msg)
    seconds = _SECONDS_TO_EXPLAIN
    if progress.options.time_limit_s is not None:
        seconds = min(seconds, max(1.0, progress.clock.left))
    smallest = min_budget(
        graph, options=replace(progress.options, time_limit_s=seconds)
    )
    bound = max(smallest.bound_bytes, infeasible.least_bytes if infeasible else 0)
    return InfeasibleError(
        _explanation(graph, smallest, bound, budget_bytes, reserve_bytes),
        budget_bytes=budget_bytes,
        bound_bytes=bound + reserve_bytes,
        smallest_bytes=smallest.budget_bytes + reserve_bytes,
        site=smallest.site,
    )


def _explanation(
    graph: CostGraph,
    smallest: MinBudget,
    bound: int,
    budget_bytes: int,
    reserve_bytes: int,
) -> str:
    """Say that nothing fits, what would, and what stands in the way."""
    budget = format_bytes(budget_bytes)
    if reserve_bytes:
        budget += f" less {format_bytes(reserve_bytes)} in reserve"
    verdict = "fits" if bound > budget_bytes - reserve_bytes else "was found within"
    needed = smallest.budget_bytes + reserve_bytes
    lines = (
        f"no schedule of {graph.name!r} {verdict} {budget};",
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
