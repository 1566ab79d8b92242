"""The smallest budget: how far plans can be squeezed, and how far none can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from encamp.plan import Order

from .bounds import Bound, Cuts, bound, outputs_floor
from .closure import closure_bound
from .jit import IntArray
from .last_run import last_run_bound
from .progress import Progress
from .repair import Taste
from .replay_fast import FORBIDDEN, peak
from .stages import repair_within
from .start import from_held, starts, unplanned

_EVERY_OP = 4000
_TASTES = (
    Taste(),
    Taste(gap_weight=1.0),
    Taste(gap_weight=0.5, noise=0.7),
    Taste(noise=0.7),
)
_CUTS_TRIED = 12
_RESOLUTION = 1000
"""The search for a smaller budget ends at steps of one in so many."""


@dataclass(frozen=True, slots=True)
class Floor:
    """No schedule holds fewer bytes than this at the step of an op."""

    least_bytes: int
    op: int
    method: str

    @classmethod
    def of(cls, bound: Bound) -> Floor:
        """Return the floor that all outputs together are."""
        return cls(bound.least_bytes, bound.op, "outputs")


def floor_of(cuts: Cuts, progress: Progress) -> Floor:
    """Return the best proven lower bound on the peak of any schedule.

    The last step holds all outputs; the first run of each op holds at least what its
    cut cannot avoid when recomputing costs nothing; some run is the last one; and what
    an op reads was made from something.
    Takes a third of the time that is left at most.
    """
    problem, clock = cuts.problem, progress.clock.share(1 / 3)
    best = Floor.of(outputs_floor(problem))
    promising = cuts.worth_trying(Order.FREE)
    others = range(problem.num_ops if problem.num_ops <= _EVERY_OP else 0)
    if problem.barred.any():
        least, _ = cuts.at_turn().least_bytes()
        best = max(best, Floor(least, problem.num_forward, "rules-cut"), key=_height)
    for op in dict.fromkeys([*promising, *others]):
        if clock.is_over():
            break
        cut = cuts.at(op)
        before = cut.work
        least, _ = cut.least_bytes()
        clock.pay(cut.work - before)
        best = max(best, Floor(least, op, "least-cut"), key=_height)
    bounds = (("last-run", last_run_bound), ("closure", closure_bound))
    for method, prove in bounds:
        found = prove(problem, best.least_bytes, clock)
        best = best if found is None else Floor(*found, method)
    return best


def _height(floor: Floor) -> int:
    return floor.least_bytes


def squeeze(
    cuts: Cuts, progress: Progress, floor: Floor, *, rounds_per_op: float = 1.0
) -> IntArray:
    """Return a schedule of a peak as small as repeated repair finds.

    Bisects between the floor and the best peak, taking a goal that no variant of the
    repair reaches as out of reach; a heuristic, so a smaller budget may exist. Fewer
    `rounds_per_op` give up sooner, and end at a larger budget where that is hard.
    """
    progress.begin("squeeze")
    problem, reach = cuts.problem, _Reach(cuts, progress, floor, rounds_per_op)
    best = _obedient(progress, unplanned(problem))
    top, low = int(peak(problem, best)), floor.least_bytes
    while top - low > max(1, top // _RESOLUTION) and not progress.clock.is_over():
        goal = (low + top) // 2
        found = reach.from_(best, goal)
        if found is None:
            low = goal
        else:
            best, top = found, int(peak(problem, found))
    if top > low == floor.least_bytes and not progress.clock.is_over():
        found = reach.from_(best, low)
        best = best if found is None else found
    return best


def _obedient(progress: Progress, steps: IntArray) -> IntArray:
    """Return a schedule that drops what rules forbid to hold, as far as found."""
    if peak(progress.problem, steps) < FORBIDDEN:
        return steps
    taste = Taste()
    found = repair_within(progress, steps, FORBIDDEN - 1, taste)
    if found is None:
        nothing = np.zeros(progress.problem.num_values, dtype=np.bool_)
        found = from_held(progress.problem, nothing)
    return found


@dataclass(frozen=True, slots=True)
class _Reach:
    """How a squeeze tries to reach a goal."""

    cuts: Cuts
    progress: Progress
    floor: Floor
    rounds_per_op: float

    def from_(self, best: IntArray, goal: int) -> IntArray | None:
        """Return a schedule of a peak up to `goal`, None if no variant finds one."""
        schedules = _squeezable(self.cuts, best, self.floor)
        for steps in chain(schedules, self._cut_for(goal)):
            for taste in _TASTES:
                found = repair_within(
                    self.progress, steps, goal, taste, rounds_per_op=self.rounds_per_op
                )
                if found is not None:
                    return found
                if self.progress.clock.is_over():
                    return None
        return None

    def _cut_for(self, goal: int) -> Iterator[IntArray]:
        """Yield the schedules of the cut that proves most at a goal, if it can be."""
        best: Bound | None = None
        for op in self.cuts.worth_trying(Order.FREE)[:_CUTS_TRIED]:
            cut = self.cuts.at(op)
            before = cut.work
            found = bound(cut, goal)
            self.progress.clock.pay(cut.work - before)
            if found.added_ns is None or self.progress.clock.is_over():
                return
            if best is None or found.added_ns > (best.added_ns or 0):
                best = found
        if best is not None:
            yield from starts(self.cuts, best)


def _squeezable(cuts: Cuts, best: IntArray, floor: Floor) -> Iterator[IntArray]:
    """Yield schedules to repair: the best so far, and some that hold little."""
    problem = cuts.problem
    yield best
    late = min(max(floor.op, problem.num_forward), problem.num_ops - 1)
    cut = cuts.at(late, Order.GIVEN)
    _, choice = cut.least_bytes()
    yield from_held(problem, choice.held | cut.at.fixed)
    yield unplanned(problem)
    yield from_held(problem, np.zeros_like(choice.held))
