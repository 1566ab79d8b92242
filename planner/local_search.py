"""Local search: record-to-record travel over schedules within the budget.

A move takes a few recomputations out, or drops a few live values, and repairs and
fills the schedule with some noise. It is accepted while it is no worse than the best
by a deviation that shrinks to nothing (Dueck: Journal of Computational Physics 1993);
accepting improvements only gets stuck.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .fill import fill, recomputations
from .jit import IntArray, RandomState, below, compiled, uniform
from .problem import Problem
from .repair import (
    FITS,
    Taste,
    chain_of,
    drop_value,
    is_idle,
    repair,
    scratch,
    uses_around,
)
from .replay_fast import drop_dead, duration, select

_DEVIATION = 0.05
"""Share of the added duration by which an accepted plan may be worse at first."""
_DETOUR = 0.15
"""Share of it by which a schedule may be longer before it is filled."""
_NOISE = 0.5
_FILL_NOISE = 0.3
_MAX_ROUNDS = 80


class Walk(NamedTuple):
    """Where a search stands: the schedule it left from, and the best one seen."""

    current: IntArray
    best: IntArray


class Leg(NamedTuple):
    """The moves from `first` to before `pause`, of a search that has `total`."""

    first: int
    pause: int
    total: int
    target: int
    """A duration that ends the search."""


@compiled
def walk(
    problem: Problem, start: Walk, budget: int, leg: Leg, random: RandomState
) -> Walk:
    """Go on with a search within `budget` and return where it stands then."""
    floor = 0
    for op in range(problem.num_ops):
        floor += problem.durations[op]
    current, best = start
    length, shortest = duration(problem, current), duration(problem, best)
    for move in range(leg.first, leg.pause):
        if shortest <= leg.target:
            break
        slack = int(_DEVIATION * (shortest - floor) * (1 - move / leg.total))
        limit = length + slack + int(_DETOUR * (length - floor)) + 1
        noise = _NOISE if uniform(random) < 0.7 else 0.0
        taste = Taste(0.0, noise, limit, _MAX_ROUNDS)
        trial, ended = repair(
            problem, _disturb(problem, current, random), budget, taste, random
        )
        if ended != FITS:
            continue
        trial = fill(problem, trial, budget, _FILL_NOISE, random)
        found = duration(problem, trial)
        if found <= shortest + slack:
            current, length = trial, found
        if found < shortest:
            best, shortest = trial, found
    return Walk(current, best)


@compiled
def _disturb(problem: Problem, steps: IntArray, random: RandomState) -> IntArray:
    if uniform(random) < 0.75:
        return _take_out(problem, steps, random)
    for _ in range(1 + below(random, 3)):
        steps = _drop_any(problem, steps, random)
    return steps


@compiled
def _take_out(problem: Problem, steps: IntArray, random: RandomState) -> IntArray:
    """Remove one to five recomputations, often neighbours in time."""
    again = recomputations(problem, steps)
    if len(again) == 0:
        return steps
    stays = np.ones(len(steps), dtype=np.bool_)
    first = below(random, len(again))
    together = uniform(random) < 0.6
    for position in range(1 + below(random, 5)):
        chosen = first + position if together else below(random, len(again))
        if chosen < len(again):
            stays[again[chosen]] = False
    return drop_dead(problem, select(steps, stays))


@compiled
def _drop_any(problem: Problem, steps: IntArray, random: RandomState) -> IntArray:
    """Drop a random value that is live and unused at a random step."""
    here = below(random, len(steps))
    uses = uses_around(problem, steps, here)
    chosen = -1
    seen = 0
    for value in range(problem.num_values):
        if is_idle(uses, value, here):
            seen += 1
            if below(random, seen) == 0:
                chosen = value
    if chosen < 0:
        return steps
    space = scratch(problem, random)
    count = chain_of(problem, uses, chosen, space)
    if count == 0:
        return steps
    return drop_value(problem, steps, uses.next[chosen], space.chain[:count])
