"""Fill: take recomputations out of a schedule again while it stays under the budget.

The dearest recomputation per byte it makes is tried first; each removal is judged by
the exact replay, so fill never turns a plan that fits into one that does not.
"""

from __future__ import annotations

import numpy as np

from .jit import BoolArray, IntArray, RandomState, compiled, uniform
from .problem import Problem
from .replay_fast import drop_dead, first_runs, peak, select


@compiled
def fill(
    problem: Problem, steps: IntArray, budget: int, noise: float, random: RandomState
) -> IntArray:
    """Return a schedule within `budget` after one attempt at each recomputation.

    `noise` spreads the order of the attempts. Quadratic in the schedule.
    """
    stays = np.ones(len(steps), dtype=np.bool_)
    attempt(problem, steps, budget, attempts(problem, steps, noise, random), stays)
    return drop_dead(problem, select(steps, stays))


@compiled
def attempt(
    problem: Problem, steps: IntArray, budget: int, order: IntArray, stays: BoolArray
) -> None:
    """Clear in `stays` those steps of `order` that can go, one after the other."""
    for step in order:
        stays[step] = False
        if peak(problem, drop_dead(problem, select(steps, stays))) > budget:
            stays[step] = True


@compiled
def attempts(
    problem: Problem, steps: IntArray, noise: float, random: RandomState
) -> IntArray:
    """Return the steps that are recomputations, dearest per byte first."""
    again = recomputations(problem, steps)
    worth = np.empty(len(again), dtype=np.float64)
    for position in range(len(again)):
        op = steps[again[position]]
        made = 1.0
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            made += problem.sizes[problem.makes[at]]
        worth[position] = problem.durations[op] / made
        if noise > 0:
            worth[position] *= np.exp(noise * (uniform(random) - 0.5) * 3.5)
    return again[np.argsort(-worth)]


@compiled
def recomputations(problem: Problem, steps: IntArray) -> IntArray:
    """Return the steps that run an op again, in order."""
    first = first_runs(problem, steps)
    again = np.empty(len(steps), dtype=np.int64)
    size = 0
    for step in range(len(steps)):
        if first[steps[step]] != step:
            again[size] = step
            size += 1
    return again[:size].copy()
