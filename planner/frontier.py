"""The frontier: what each amount of memory costs in time, and what is proved of it.

One task serves all budgets, from the largest to the smallest. The lines that the cuts
at one budget found bound the next one, so that most of them need no flow at all; the
plan at one budget, repaired a little further, is the start for the next. Then the
plans are carried back up: what fits a smaller budget fits a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from encamp.errors import InfeasibleError, NoPlanError, OptionError
from encamp.graph import CostGraph
from encamp.plan import Figures, GraphRef, Plan
from encamp.units import format_bytes

from . import stages
from .annealing import may_reorder, search_orders, squeeze_orders
from .clock import Cancel
from .jit import IntArray
from .minimum import floor_of, squeeze
from .options import Options
from .progress import Effort, Listener, Progress
from .replay_fast import peak
from .result import plan_of
from .solver import UNBOUNDED
from .start import unplanned
from .task import Task

_EFFORT = Effort(rounds_per_op=0.25, moments=2, work=0.05)
"""Less than a single solve's: the neighbours have done much of it."""
_ROUNDS_PER_OP = 0.25
"""For the smallest budget, where repairs that give up are most of the time."""
_FLOOR_SHARE = 1 / 4
"""Of the limit, what the search for the smallest budget may take."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Plans of one graph by falling budget: peaks never rise, durations never fall.

    `missed` are the budgets for which no plan was found, with those below
    `bound_bytes` proved infeasible.
    """

    graph: GraphRef
    unplanned: Figures
    plans: tuple[Plan, ...]
    missed: tuple[int, ...]
    bound_bytes: int
    seconds: float

    @property
    def knee(self) -> int | None:
        """The plan after which memory gets dear: its place in `plans`, or None.

        It is the one farthest below the straight line between the ends, in shares of
        the ranges of peak and duration (Satopaa and others: "Finding a Kneedle in a
        Haystack", ICDCS workshops 2011).
        """
        if len(self.plans) < 3:
            return None
        first, last = self.plans[0], self.plans[-1]
        saved = first.peak_bytes - last.peak_bytes
        added = last.duration_ns - first.duration_ns
        if saved <= 0 or added <= 0:
            return None
        worth = [
            (first.peak_bytes - plan.peak_bytes) * added
            - (plan.duration_ns - first.duration_ns) * saved
            for plan in self.plans
        ]
        best = max(worth)
        return worth.index(best) if best > 0 else None


def sweep(
    graph: CostGraph,
    budgets: Sequence[int] | None = None,
    *,
    points: int = 12,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Listener | None = None,
    cancel: Cancel | None = None,
) -> Frontier:
    """Return plans of a graph at many budgets, in total bytes of peak memory.

    Without budgets there are `points` of them, evenly spread from the unplanned peak
    down to the smallest budget that a short search finds feasible. The limits of the
    options are for all of them together; at their end, or once `cancel` is set, the
    frontier holds what was found so far.

    Raises:
        OptionError: there is no budget, or a rule of the options cannot be followed.
        InfeasibleError: the largest of the budgets is proved infeasible.
        NoPlanError: no plan was found for any budget.

    """
    if points < 2 or (budgets is not None and not budgets):
        msg = "a sweep takes at least two points, or at least one budget"
        raise OptionError(msg)
    task = Task.of(graph, options, cancel)
    sweeping = _Sweep(task, progress)
    chosen = sweeping.spread(points) if budgets is None else budgets
    sweeping.descend(sorted(set(chosen), reverse=True))
    sweeping.exchange()
    return sweeping.frontier()


class _Sweep:
    """The solves of a sweep, from the largest budget down."""

    def __init__(self, task: Task, listener: Listener | None) -> None:
        self._task = task
        self._listener = listener
        self._solves: list[Progress] = []
        self._infeasible = False
        self._least: IntArray | None = None
        under_way = task.begin(UNBOUNDED, None, task.clock.share(_FLOOR_SHARE))
        self._floor = floor_of(task.cuts, under_way)

    def spread(self, points: int) -> list[int]:
        """Return budgets from the unplanned peak to the smallest found."""
        task = self._task
        clock = task.clock.share(_FLOOR_SHARE)
        under_way = task.begin(UNBOUNDED, self._listener, clock)
        self._least = squeeze(
            task.cuts, under_way, self._floor, rounds_per_op=_ROUNDS_PER_OP
        )
        if may_reorder(under_way):
            least = self._floor.least_bytes
            self._least = squeeze_orders(under_way, self._least, least)
        high = task.description.unplanned.peak_bytes
        low = min(int(peak(task.problem, self._least)), high)
        return [high - (high - low) * i // (points - 1) for i in range(points)]

    def descend(self, budgets: Sequence[int]) -> None:
        """Solve each budget from the plan of the last one, until one is infeasible."""
        for position, budget in enumerate(budgets):
            clock = self._task.clock.share(1 / (len(budgets) - position))
            under_way = self._task.begin(budget, self._listener, clock, _EFFORT)
            self._infeasible = self._infeasible or self._solve(under_way)
            self._solves.append(under_way)
            clock.stop()

    def _solve(self, under_way: Progress) -> bool:
        """Run the stages until the gap is closed; return whether nothing fits."""
        task, options = self._task, under_way.options
        if under_way.budget < self._floor.least_bytes:
            return True
        if under_way.offer(unplanned(task.problem)):
            under_way.begin("unplanned")
            return False
        found = stages.prove_bound(task.cuts, under_way) if options.bound else None
        if found is not None and found.added_ns is None:
            return True
        self._go_on(under_way)
        if may_reorder(under_way) and not under_way.done:
            search_orders(under_way)
        if options.bound and not under_way.done and under_way.keeps_order:
            stages.prove_given(task.cuts, under_way)
        if options.integer_program and not under_way.done:
            first = found.op if found is not None else task.problem.num_forward
            moments = stages.first_moments(
                under_way, min(first, task.problem.num_ops - 1)
            )
            stages.solve_programs(under_way, moments)
        if not under_way.done:
            stages.start_repair_fill(task.cuts, found, under_way)
        if options.local_search and under_way.keeps_order and not under_way.done:
            stages.search_locally(under_way)
        return False

    def _go_on(self, under_way: Progress) -> None:
        """Improve what the last budget left; the smallest schedule fits any budget."""
        under_way.begin("repair")
        if self._least is not None:
            under_way.offer(self._least)
        last = self._solves[-1].best if self._solves else None
        start = unplanned(self._task.problem) if last is None else last
        stages.improve(under_way, start)

    def exchange(self) -> None:
        """Carry plans up to larger budgets, then what fits, and all proofs, down."""
        neighbours = [*pairwise(self._solves)]
        for larger, smaller in reversed(neighbours):
            if smaller.best is None:
                continue
            larger.take(smaller)
            if larger.options.fill and not larger.done:
                larger.offer(stages.fill_within(larger, smaller.best))
        for larger, smaller in neighbours:
            for order, proof in larger.proofs.items():
                smaller.prove(order, proof.added_ns, proof.method)
            if larger.best is not None:
                smaller.offer(larger.best)

    def frontier(self) -> Frontier:
        """Return the plans, monotone in peak and duration."""
        task = self._task
        found = [solve for solve in self._solves if solve.best is not None]
        if not found:
            raise self._refusal()
        plans = [plan_of(task, solve, budget_bytes=solve.budget) for solve in found]
        return Frontier(
            graph=task.description.ref,
            unplanned=task.description.unplanned,
            plans=tuple(plans),
            missed=tuple(s.budget for s in self._solves if s.best is None),
            bound_bytes=self._floor.least_bytes,
            seconds=round(task.clock.seconds, 3),
        )

    def _refusal(self) -> InfeasibleError | NoPlanError:
        name, bound = self._task.graph.name, self._floor.least_bytes
        largest = self._solves[0].budget
        if not self._infeasible:
            msg = (
                f"no plan of {name!r} within {format_bytes(largest)} was found"
                f" {self._task.clock.end}; give the sweep more time or larger budgets"
            )
            return NoPlanError(msg)
        msg = (
            f"no schedule of {name!r} fits {format_bytes(largest)}, the largest budget"
            f" of the sweep; none fits less than {format_bytes(bound)}. Raise the"
            " budgets; `encamp min-budget` searches for the smallest"
        )
        return InfeasibleError(msg, budget_bytes=largest, bound_bytes=bound)
