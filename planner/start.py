"""Starts: schedules built from what a cut decides to hold.

The cut behind the bound knows which values the best schedule would hold at its op.
Each backward op then recomputes, just before it runs, what it needs and was not held.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from encamp.plan import Order

from .bounds import Bound, Cuts
from .jit import BoolArray, IntArray, compiled
from .problem import Problem
from .replay_fast import drop_dead

_PRICE_PERCENT = (100, 97, 103, 90, 110)


def unplanned(problem: Problem) -> IntArray:
    """Return the schedule that runs every op once, in order."""
    return np.arange(problem.num_ops, dtype=np.int64)


def starts(cuts: Cuts, bound: Bound) -> Iterator[IntArray]:
    """Yield schedules from the cut at the bound's op, at prices near the bound's.

    They differ also in whether the values read on the way to that op are kept from
    the forward, or dropped like the others. Not all fit the budget.
    """
    cut = cuts.at(bound.op, Order.GIVEN)
    problem = cuts.problem
    on_the_way = _read_before(problem, bound.op)
    seen: set[bytes] = set()
    for percent in _PRICE_PERCENT:
        _, choice = cut.priced(bound.price.scaled(percent, 100))
        for extra in (on_the_way, np.zeros_like(on_the_way)):
            held = choice.held | cut.at.fixed | extra
            if held.tobytes() not in seen:
                seen.add(held.tobytes())
                yield from_held(problem, held)


def from_held(problem: Problem, held: BoolArray) -> IntArray:
    """Return the schedule that keeps only `held` of what the forward makes.

    What a backward op needs beyond that is recomputed just before it, and then kept.
    Values that no op can make again, and outputs, are held in any case.
    """
    given = problem.producers < 0
    must = given | problem.is_output | problem.pinned[problem.producers]
    may = held & ~problem.barred
    return drop_dead(problem, _just_in_time(problem, may | must))


def _read_before(problem: Problem, op: int) -> BoolArray:
    """Return the values that backward ops up to `op` read."""
    found = np.zeros(problem.num_values, dtype=np.bool_)
    first = problem.reads_at[min(problem.num_forward, op)]
    found[problem.reads[first : problem.reads_at[op + 1]]] = True
    return found


@compiled
def _just_in_time(problem: Problem, held: BoolArray) -> IntArray:
    steps = np.empty(problem.num_ops + problem.num_forward, dtype=np.int64)
    for size in range(problem.num_forward):
        steps[size] = size
    size = problem.num_forward
    have = held.copy()
    wanted_by = np.full(problem.num_ops, -1, dtype=np.int64)
    wanted = np.empty(problem.num_ops, dtype=np.int64)
    for op in range(problem.num_forward, problem.num_ops):
        wanted_by[op] = wanted[0] = op
        count, done = 1, 0
        while done < count:
            reader = wanted[done]
            done += 1
            for at in range(problem.reads_at[reader], problem.reads_at[reader + 1]):
                maker = problem.producers[problem.reads[at]]
                if not have[problem.reads[at]] and wanted_by[maker] != op:
                    wanted_by[maker] = op
                    wanted[count] = maker
                    count += 1
        # Ops are in an order that can run: makers come before their readers.
        for maker in np.sort(wanted[:count]):
            steps[size] = maker
            size += 1
            for at in range(problem.makes_at[maker], problem.makes_at[maker + 1]):
                have[problem.makes[at]] = True
    return steps[:size].copy()
