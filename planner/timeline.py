"""A schedule whose recomputations can go, one after the other, in logarithmic time.

The memory of each step is kept in a tree over the steps; a run that goes changes the
lifetimes of what it makes and reads, which are ranges of it. Steps never move, so the
runs and uses of a value stay sorted. What a removal did can be undone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import BoolArray, IntArray, compiled
from .problem import Problem
from .replay_fast import FORBIDDEN, boundary, carried_over, first_runs, memory

_JOURNALED, _GONE, _CARRIED = 0, 1, 2


class Timeline(NamedTuple):
    """A schedule, its memory, and what the last removals changed."""

    steps: IntArray
    turn: int
    """The first backward step."""
    stays: BoolArray
    """Steps that have not been removed."""
    first: IntArray
    """The step of each op's first run."""
    events_at: IntArray
    """Where the events of each value begin in `events`."""
    events: IntArray
    """Steps that make or read a value, in order; -1 where it is given."""
    makes: BoolArray
    """Which of them make it."""
    added: IntArray
    """For each node of the tree the bytes that all steps below it hold more."""
    highest: IntArray
    """For each node the most bytes that a step below it holds, seen from there."""
    journal: IntArray
    """Ranges of steps and the bytes added to them since the last commit."""
    gone: IntArray
    """Steps removed since then."""
    counts: IntArray
    """Lengths of the two, and the number of barred values carried over the turn."""


@compiled
def timeline(problem: Problem, steps: IntArray) -> Timeline:
    """Return the timeline of a schedule. Linear in its steps and their edges."""
    turn = boundary(problem, steps)
    carried = carried_over(problem, steps, turn)
    held = memory(problem, steps)
    if carried > 0:
        held[turn] -= FORBIDDEN + carried
    events_at, events, makes = _events(problem, steps)
    added, highest = _tree(held)
    return Timeline(
        steps,
        turn,
        np.ones(len(steps), dtype=np.bool_),
        first_runs(problem, steps),
        events_at,
        events,
        makes,
        added,
        highest,
        np.empty((3 * len(events) + len(steps), 3), dtype=np.int64),
        np.empty(len(steps), dtype=np.int64),
        np.array([0, 0, carried]),
    )


@compiled
def _events(problem: Problem, steps: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    at = np.zeros(problem.num_values + 1, dtype=np.int64)
    at[1:] = problem.producers < 0
    for op in steps:
        for read in problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]]:
            at[read + 1] += 1
        for made in problem.makes[problem.makes_at[op] : problem.makes_at[op + 1]]:
            at[made + 1] += 1
    at = np.cumsum(at)
    free = at[:-1].copy()
    events = np.full(at[-1], -1, dtype=np.int64)
    makes = np.zeros(at[-1], dtype=np.bool_)
    for value in range(problem.num_values):
        if problem.producers[value] < 0:
            makes[free[value]] = True
            free[value] += 1
    for step, op in enumerate(steps):
        for read in problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]]:
            events[free[read]] = step
            free[read] += 1
        for made in problem.makes[problem.makes_at[op] : problem.makes_at[op + 1]]:
            events[free[made]] = step
            makes[free[made]] = True
            free[made] += 1
    return at, events, makes


@compiled
def _tree(held: IntArray) -> tuple[IntArray, IntArray]:
    size = 1
    while size < len(held):
        size *= 2
    highest = np.full(2 * size, -(2**62), dtype=np.int64)
    highest[size : size + len(held)] = held
    for node in range(size - 1, 0, -1):
        highest[node] = max(highest[2 * node], highest[2 * node + 1])
    return np.zeros(2 * size, dtype=np.int64), highest


@compiled
def top(line: Timeline) -> int:
    """Return the peak; `FORBIDDEN` or more where barred values are carried over."""
    if line.counts[_CARRIED] > 0:
        return int(line.highest[1] + FORBIDDEN)
    return int(line.highest[1])


@compiled
def remove(problem: Problem, line: Timeline, step: int) -> None:
    """Take out a recomputation, and those that then make nothing that is used.

    Each costs the logarithm of the schedule for every value it touches, and a walk
    over the events of that value's instances.
    """
    done = line.counts[_GONE]
    _queue(line, step)
    while done < line.counts[_GONE]:
        gone = line.gone[done]
        done += 1
        # Not before: while it waits, what it reads is still held for it.
        line.stays[gone] = False
        op = line.steps[gone]
        _hold(line, gone, gone, -problem.workspaces[op])
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            _unmake(problem, line, problem.makes[at], gone)
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            maker = _unread(problem, line, problem.reads[at], gone)
            if maker >= 0 and _is_dead(problem, line, maker):
                _queue(line, maker)


@compiled
def _queue(line: Timeline, step: int) -> None:
    line.gone[line.counts[_GONE]] = step
    line.counts[_GONE] += 1


@compiled
def commit(line: Timeline) -> None:
    """Forget how to undo what was removed so far."""
    line.counts[_GONE] = line.counts[_JOURNALED] = 0


@compiled
def undo(line: Timeline) -> None:
    """Bring back what was removed since the last commit."""
    while line.counts[_GONE] > 0:
        line.counts[_GONE] -= 1
        line.stays[line.gone[line.counts[_GONE]]] = True
    while line.counts[_JOURNALED] > 0:
        line.counts[_JOURNALED] -= 1
        entry = line.journal[line.counts[_JOURNALED]]
        if entry[0] < 0:
            line.counts[_CARRIED] -= entry[2]
        else:
            _add(line, entry[0], entry[1], -entry[2])


class Instance(NamedTuple):
    """One life of a value."""

    last: int
    """The last step that it is live at; that of its birth where nothing reads it."""
    is_used: bool
    carried: int
    """1 if it is barred and first read after the turn that it lives across, else 0."""


@compiled
def _instance(
    problem: Problem, line: Timeline, value: int, born: int, stop: int
) -> Instance:
    """Return the instance made at an event, up to the next run that stays, or `stop`.

    `stop` is an event of the value, or the end of them.
    """
    last, used, first_late = max(line.events[born], 0), False, -1
    event = born + 1
    while event < stop:
        step = line.events[event]
        if line.stays[step]:
            if line.makes[event]:
                break
            used, last = True, step
            if first_late < 0 and step >= line.turn:
                first_late = step
        event += 1
    end = line.events_at[value + 1]
    until = line.events[event] if event < end else len(line.steps)
    if _is_handed_over(problem, line, value, line.events[born], until):
        used, last = True, len(line.steps) - 1
    late = line.events[born] < line.turn < first_late
    return Instance(last, used, 1 if problem.barred[value] and late else 0)


@compiled
def _is_handed_over(
    problem: Problem, line: Timeline, value: int, born: int, until: int
) -> bool:
    """Return whether an output is the instance of these steps."""
    if not problem.is_output[value]:
        return False
    if problem.producers[value] >= problem.num_forward:
        return bool(until == len(line.steps))
    return bool(born < line.turn <= until)


@compiled
def _unmake(problem: Problem, line: Timeline, value: int, step: int) -> None:
    """Let the instance before serve those who read the one made at a removed step."""
    event, end = _event(line, value, step), line.events_at[value + 1]
    born = _made_before(line, event)
    gone = _instance(problem, line, value, event, end)
    before = _instance(problem, line, value, born, event)
    after = _instance(problem, line, value, born, end)
    size = problem.sizes[value]
    _hold(line, step, gone.last, -size)
    _hold(line, before.last + 1, after.last, size)
    _carry(line, after.carried - before.carried - gone.carried)


@compiled
def _unread(problem: Problem, line: Timeline, value: int, step: int) -> int:
    """End the instance read at a removed step earlier; return the step that made it."""
    event, end = _event(line, value, step), line.events_at[value + 1]
    born = _made_before(line, event)
    after = _instance(problem, line, value, born, end)
    line.stays[step] = True
    before = _instance(problem, line, value, born, end)
    line.stays[step] = False
    _hold(line, after.last + 1, before.last, -problem.sizes[value])
    _carry(line, after.carried - before.carried)
    return int(line.events[born])


@compiled
def _is_dead(problem: Problem, line: Timeline, step: int) -> bool:
    """Return whether a run is a recomputation of which nothing is used."""
    op = line.steps[step]
    if not line.stays[step] or line.first[op] == step:
        return False
    for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
        value = problem.makes[at]
        event, end = _event(line, value, step), line.events_at[value + 1]
        if _instance(problem, line, value, event, end).is_used:
            return False
    return True


@compiled
def _event(line: Timeline, value: int, step: int) -> int:
    """Return the event of a value at a step that makes or reads it."""
    low, high = line.events_at[value], line.events_at[value + 1]
    return int(low + np.searchsorted(line.events[low:high], step))


@compiled
def _made_before(line: Timeline, event: int) -> int:
    """Return the last event before one that makes the value and stays, or gives it."""
    event -= 1
    while not line.makes[event] or not (
        line.events[event] < 0 or line.stays[line.events[event]]
    ):
        event -= 1
    return event


@compiled
def _hold(line: Timeline, low: int, high: int, size: int) -> None:
    """Add bytes to a range of steps, and note it for `undo`."""
    if low <= high and size != 0:
        _note(line, low, high, size)
        _add(line, low, high, size)


@compiled
def _carry(line: Timeline, change: int) -> None:
    """Add to the number of barred values carried over, and note it for `undo`."""
    if change != 0:
        _note(line, -1, -1, change)
        line.counts[_CARRIED] += change


@compiled
def _note(line: Timeline, low: int, high: int, change: int) -> None:
    entry = line.counts[_JOURNALED]
    line.journal[entry, 0], line.journal[entry, 1] = low, high
    line.journal[entry, 2] = change
    line.counts[_JOURNALED] += 1


@compiled
def _add(line: Timeline, low: int, high: int, size: int) -> None:
    """Add bytes to each step of a range."""
    leaves = len(line.highest) // 2
    left, right = low + leaves, high + leaves
    first, last = left, right
    while left <= right:
        if left % 2 == 1:
            line.added[left] += size
            line.highest[left] += size
            left += 1
        if right % 2 == 0:
            line.added[right] += size
            line.highest[right] += size
            right -= 1
        left, right = left // 2, right // 2
    _refresh(line, first)
    _refresh(line, last)


@compiled
def _refresh(line: Timeline, leaf: int) -> None:
    """Recompute the nodes above a leaf."""
    node = leaf // 2
    while node > 0:
        below = max(line.highest[2 * node], line.highest[2 * node + 1])
        line.highest[node] = below + line.added[node]
        node //= 2
