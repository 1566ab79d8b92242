"""Griewank's binomial schedule: the fewest recomputations of a uniform chain.

Griewank, Walther: "Algorithm 799: revolve", ACM Transactions on Mathematical Software
26(1), 2000. A chain of `length` steps is reversed with `slots` checkpoints, one of
which holds where it begins. The run advances some steps, checkpoints, reverses the rest
with one slot less, then goes back and reverses the steps it had passed.

With r the least number of passes such that binomial(slots + r, slots) >= length, the
fewest advances are r * length - binomial(slots + r, slots + 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem

from .chain import Action, Run, chain_of, unroll
from .method import Limits


def reach(slots: int, passes: int) -> int:
    """Return the longest chain that no step of is advanced more often than `passes`."""
    return comb(slots + passes, slots) if passes >= 0 else 0


def least_passes(length: int, slots: int) -> int:
    """Return the fewest passes that reach `length` with `slots` checkpoints."""
    passes = 0
    while reach(slots, passes) < length:
        passes += 1
    return passes


def least_advances(length: int, slots: int) -> int:
    """Return the fewest steps advanced while a chain is reversed, in closed form.

    The step about to be reversed is not counted, the first sweep is.
    """
    passes = least_passes(length, slots)
    return passes * length - reach(slots + 1, passes - 1)


def first_advance(length: int, slots: int) -> int:
    """Return how far to advance before the next checkpoint, of two steps or more."""
    if slots == 1:
        return length - 1
    passes = least_passes(length, slots)
    return min(reach(slots, passes - 1), length - reach(slots - 1, passes - 1))


def revolve_actions(start: int, stop: int, slots: int) -> Iterator[Action]:
    """Yield the runs that reverse segments `start` to `stop`, held at `start`."""
    while stop - start > 1:
        split = start + first_advance(stop - start, slots)
        for segment in range(start, split):
            yield Run.FORWARD, segment
        yield from revolve_actions(split, stop, max(slots - 1, 1))
        stop = split
    yield Run.FORWARD, start
    yield Run.BACKWARD, start


def revolve(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the binomial schedules of a chain of segments, for each count of slots."""
    chain = chain_of(problem)
    for slots in range(1, len(chain) + 1):
        yield unroll(chain, revolve_actions(0, len(chain), slots))
