"""The smallest budget: how far plans can be squeezed, and how far none can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from encamp.plan import Order

from .bounds import Cuts, moments, outputs_floor
from .jit import IntArray
from .last_run import last_run_bound
from .progress import Clock, Progress
from .repair import Taste
from .replay_fast import peak
from .stages import repair_within
from .start import from_held, unplanned

_EVERY_OP = 4000
_TASTES = (
    Taste(),
    Taste(gap_weight=1.0),
    Taste(gap_weight=0.5, noise=0.7),
    Taste(noise=0.7),
)
_DROPS_PER_OP = 1
_RESOLUTION = 1000
"""The search for a smaller budget ends at steps of one in so many."""


@dataclass(frozen=True, slots=True)
class Floor:
    """No schedule holds fewer bytes than this at the step of an op."""

    least_bytes: int
    op: int
    method: str


def floor_of(cuts: Cuts, progress: Progress) -> Floor:
    """Return the best proven lower bound on the peak of any schedule.

    The last step holds all outputs; the first run of each op holds at least what its
    cut cannot avoid when recomputing costs nothing; and some run is the last one.
    Takes a third of the time that is left at most.
    """
    problem, clock = cuts.problem, Clock(progress.clock.left / 3)
    last = outputs_floor(problem)
    best = Floor(last.least_bytes, last.op, "outputs")
    every = problem.num_ops <= _EVERY_OP
    ops = range(problem.num_ops) if every else moments(problem)
    for op in dict.fromkeys([*moments(problem), *ops]):
        if clock.is_over():
            break
        least, _ = cuts.at(op).least_bytes()
        if least > best.least_bytes:
            best = Floor(least, op, "least-cut")
    last_run = last_run_bound(problem, best.least_bytes, clock.is_over)
    return best if last_run is None else Floor(*last_run, "last-run")


def squeeze(cuts: Cuts, progress: Progress, floor: Floor) -> IntArray:
    """Return a schedule of a peak as small as repeated repair finds.

    Bisects between the floor and the best peak, taking a goal that no variant of the
    repair reaches as out of reach; a heuristic, so a smaller budget may exist.
    """
    progress.begin("squeeze")
    problem = cuts.problem
    best = unplanned(problem)
    top, low = int(peak(problem, best)), floor.least_bytes
    while top - low > max(1, top // _RESOLUTION) and not progress.clock.is_over():
        goal = (low + top) // 2
        found = _reach(cuts, progress, best, floor, goal)
        if found is None:
            low = goal
        else:
            best, top = found, int(peak(problem, found))
    if top > low and not progress.clock.is_over():
        found = _reach(cuts, progress, best, floor, low)
        best = best if found is None else found
    return best


def _reach(
    cuts: Cuts, progress: Progress, best: IntArray, floor: Floor, goal: int
) -> IntArray | None:
    for steps in _squeezable(cuts, best, floor):
        for taste in _TASTES:
            found = repair_within(
                progress, steps, goal, taste, drops_per_op=_DROPS_PER_OP
            )
            if found is not None:
                return found
            if progress.clock.is_over():
                return None
    return None


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
