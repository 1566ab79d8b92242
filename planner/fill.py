"""Fill: take recomputations out of a schedule again while it stays under the budget.

The dearest recomputation per byte it makes is tried first; each removal is judged by
the exact peak, so fill never turns a plan that fits into one that does not.
"""

from __future__ import annotations

import numpy as np

from .jit import IntArray, RandomState, compiled, uniform
from .problem import Problem
from .replay_fast import drop_dead, first_runs, select
from .timeline import Timeline, commit, remove, timeline, top, undo


@compiled
def fill(
    problem: Problem, steps: IntArray, budget: int, noise: float, random: RandomState
) -> IntArray:
    """Return a schedule within `budget` after one attempt at each recomputation.

    `noise` spreads the order of the attempts, each of which takes logarithmic time.
    """
    line = timeline(problem, steps)
    attempt(problem, line, budget, attempts(problem, steps, noise, random))
    return what_stays(problem, line)


@compiled
def attempt(problem: Problem, line: Timeline, budget: int, order: IntArray) -> None:
    """Remove those steps of `order` that can go, one after the other."""
    for step in order:
        if line.stays[step]:
            remove(problem, line, step)
            if top(line) > budget:
                undo(line)
            commit(line)


@compiled
def what_stays(problem: Problem, line: Timeline) -> IntArray:
    """Return the schedule of the steps that were not removed."""
    return drop_dead(problem, select(line.steps, line.stays))


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
