"""The replay of `encamp.replay`, compiled, and what the searches ask of a schedule.

All functions take schedules as arrays of op ids in which every read has an earlier
run of its producer. One replay is linear in the steps and their edges.
"""

from __future__ import annotations

import numpy as np

from .jit import BoolArray, IntArray, compiled
from .problem import Problem

FORBIDDEN = 2**62
"""Bytes beyond every budget: what a schedule that breaks a rule seems to hold."""


@compiled
def boundary(problem: Problem, steps: IntArray) -> int:
    """Return the first backward step, or the number of steps if there is none."""
    for step in range(len(steps)):
        if steps[step] >= problem.num_forward:
            return step
    return len(steps)


@compiled
def memory(problem: Problem, steps: IntArray) -> IntArray:
    """Return the bytes held at each step, resident values and workspace included.

    The first backward step holds `FORBIDDEN` more, and one for each of them, where
    barred values are live that it does not read.
    """
    change = np.zeros(len(steps) + 1, dtype=np.int64)
    born = np.full(problem.num_values, -1, dtype=np.int64)
    dies = np.full(problem.num_values, -1, dtype=np.int64)
    for value in range(problem.num_values):
        if problem.producers[value] < 0:
            born[value] = dies[value] = 0
    turn = boundary(problem, steps)
    for step in range(len(steps)):
        if step == turn:
            _keep_outputs(problem, born, dies, len(steps) - 1)
        op = steps[step]
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            value = problem.reads[at]
            dies[value] = max(dies[value], step)
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            _hold(problem, change, born[value], dies[value], value)
            born[value] = dies[value] = step
    if turn == len(steps):
        _keep_outputs(problem, born, dies, len(steps) - 1)
    for value in range(problem.num_values):
        if problem.is_output[value] and problem.producers[value] >= problem.num_forward:
            dies[value] = len(steps) - 1
        _hold(problem, change, born[value], dies[value], value)
    return _running_total(problem, steps, change, turn)


@compiled
def carried_over(problem: Problem, steps: IntArray, turn: int) -> int:
    """Count the barred values that live across step `turn`, where it reads none."""
    if turn == len(steps) or not problem.barred.any():
        return 0
    carried = 0
    waits = problem.barred.copy()
    for step in range(turn, len(steps)):
        op = steps[step]
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            carried += waits[problem.reads[at]] and step > turn
            waits[problem.reads[at]] = False
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            waits[problem.makes[at]] = False
    return carried


@compiled
def _running_total(
    problem: Problem, steps: IntArray, change: IntArray, turn: int
) -> IntArray:
    held = np.empty(len(steps), dtype=np.int64)
    live = problem.resident_bytes
    for step in range(len(steps)):
        live += change[step]
        held[step] = live + problem.workspaces[steps[step]]
    carried = carried_over(problem, steps, turn)
    if carried > 0:
        held[turn] += FORBIDDEN + carried
    return held


@compiled
def _keep_outputs(problem: Problem, born: IntArray, dies: IntArray, last: int) -> None:
    """Keep to the last step the instances that are handed over at the turn."""
    for value in range(problem.num_values):
        if problem.is_output[value] and born[value] >= 0:
            dies[value] = last


@compiled
def _hold(problem: Problem, change: IntArray, born: int, dies: int, value: int) -> None:
    """Count an instance from its birth to its death, if there is one."""
    if born >= 0:
        change[born] += problem.sizes[value]
        change[dies + 1] -= problem.sizes[value]


@compiled
def peak(problem: Problem, steps: IntArray) -> int:
    """Return the largest number of bytes held at any step."""
    held = memory(problem, steps)
    return int(held[worst_step(held)])


@compiled
def worst_step(held: IntArray) -> int:
    """Return the first step that holds the most."""
    worst = 0
    for step in range(len(held)):
        if held[step] > held[worst]:
            worst = step
    return worst


@compiled
def duration(problem: Problem, steps: IntArray) -> int:
    """Return the nanoseconds of all steps together."""
    total = 0
    for op in steps:
        total += problem.durations[op]
    return total


@compiled
def first_runs(problem: Problem, steps: IntArray) -> IntArray:
    """Return for each op the step of its first run."""
    first = np.full(problem.num_ops, -1, dtype=np.int64)
    for step in range(len(steps)):
        if first[steps[step]] < 0:
            first[steps[step]] = step
    return first


@compiled
def drop_dead(problem: Problem, steps: IntArray) -> IntArray:
    """Return the schedule without the recomputations whose values no use binds to."""
    first = first_runs(problem, steps)
    turn = boundary(problem, steps)
    # Forward outputs are those that stand at the turn; a later run adds nothing.
    needed = np.zeros(problem.num_values, dtype=np.bool_)
    for value in range(problem.num_values):
        backward = problem.producers[value] >= problem.num_forward
        needed[value] = problem.is_output[value] and backward
    stays = np.zeros(len(steps), dtype=np.bool_)
    for step in range(len(steps) - 1, -1, -1):
        if step == turn - 1:
            for value in range(problem.num_values):
                needed[value] |= problem.is_output[value]
        op = steps[step]
        stays[step] = first[op] == step
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            stays[step] |= needed[value]
        if stays[step]:
            for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
                needed[problem.makes[at]] = False
            for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
                needed[problem.reads[at]] = True
    return select(steps, stays)


@compiled
def select(steps: IntArray, stays: BoolArray) -> IntArray:
    """Return the steps that stay."""
    shorter = np.empty(len(steps), dtype=np.int64)
    size = 0
    for step in range(len(steps)):
        if stays[step]:
            shorter[size] = steps[step]
            size += 1
    return shorter[:size].copy()


@compiled
def insert(problem: Problem, steps: IntArray, places: IntArray) -> IntArray:
    """Return the schedule with recomputations inserted, some before each step.

    A place is a step times the number of ops, plus the op to run just before it. Ops
    before one step run in their order, which is one that can run, and once each.
    """
    places = np.unique(places)
    longer = np.empty(len(steps) + len(places), dtype=np.int64)
    done, size = 0, 0
    for step in range(len(steps)):
        while done < len(places) and places[done] // problem.num_ops == step:
            longer[size] = places[done] % problem.num_ops
            done += 1
            size += 1
        longer[size] = steps[step]
        size += 1
    for place in places[done:]:
        longer[size] = place % problem.num_ops
        size += 1
    return longer
