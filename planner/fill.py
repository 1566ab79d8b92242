"""Fill: take recomputations out of a schedule again while it stays under the budget.

The dearest recomputation per byte it makes is tried first; each removal is judged by
the exact replay, so fill never turns a plan that fits into one that does not.
"""

from __future__ import annotations

import numpy as np

from .jit import BoolArray, IntArray, RandomState, compiled, uniform
from .problem import Problem
from .replay_fast import drop_dead, first_runs, peak


@compiled
def fill(
    problem: Problem, steps: IntArray, budget: int, noise: float, random: RandomState
) -> IntArray:
    """Return a schedule within `budget`, none of whose recomputations can go.

    `noise` spreads the order of the attempts; with noise one pass is made, which
    may leave a removable recomputation. A pass is quadratic in the schedule.
    """
    while True:
        filled = _one_pass(problem, steps, budget, noise, random)
        if noise > 0 or len(filled) == len(steps):
            return filled
        steps = filled


@compiled
def _one_pass(
    problem: Problem, steps: IntArray, budget: int, noise: float, random: RandomState
) -> IntArray:
    order = _attempts(problem, steps, noise, random)
    stays = np.ones(len(steps), dtype=np.bool_)
    for step in order:
        stays[step] = False
        if peak(problem, drop_dead(problem, steps[stays])) > budget:
            stays[step] = True
    return drop_dead(problem, steps[stays])


@compiled
def _attempts(
    problem: Problem, steps: IntArray, noise: float, random: RandomState
) -> IntArray:
    """Return the steps that are recomputations, dearest per byte first."""
    again = np.flatnonzero(_is_again(problem, steps))
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
def _is_again(problem: Problem, steps: IntArray) -> BoolArray:
    again = np.ones(len(steps), dtype=np.bool_)
    again[first_runs(problem, steps)] = False
    return again
