"""Evicting when memory runs out: dynamic tensor rematerialization, run on a plan.

Kirisame, Lyubomirsky, Haan, Brennan, He, Roesch, Chen, Tatlock: "Dynamic Tensor
Rematerialization", ICLR 2021, arXiv:2006.09616. The ops run in the given order under a
budget, knowing nothing of what comes. When an op needs room, the value with the least

    h = cost / (bytes * staleness)

goes. Its cost is the time of its op and of the evicted values around it, those it
would be made from and those made from it; its staleness is the time since its last
use. A value that is read and not there is made again, with whatever that needs. A value
goes too when the program lets go of it, and can still be made again later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from encamp.planner.jit import BoolArray, IntArray, compiled
from encamp.planner.problem import Problem, flat
from encamp.planner.replay_fast import drop_dead, peak
from encamp.planner.start import unplanned

from .method import Limits

_LONGEST = 10
"""A run that comes to so many times the graph's ops is thrashing, and given up."""
_RAISES = 8
"""A run is tried under so many budgets, from the given up to the unplanned peak."""
_HELD, _CLOCK, _STAMP, _SIZE = range(4)


class Machine(NamedTuple):
    """The run so far: by value, by op, and in all."""

    readers_at: IntArray
    readers: IntArray
    """The ops that read each value."""
    live: BoolArray
    locks: IntArray
    """How many ops on the stack read each value: it must not go."""
    uses: IntArray
    """Uses of each value that the given order has yet to come to."""
    touched: IntArray
    """The time each value was last made or read."""
    once: BoolArray
    """Ops that cannot run again: they may not, or what they read is gone for good."""
    ran: BoolArray
    marks: IntArray
    queue: IntArray
    """Marks and a queue of ops, for walks over evicted ones."""
    stack: IntArray
    """Ops waiting for what they read."""
    totals: IntArray
    """Bytes held, nanoseconds run, the latest mark, the number of steps."""
    steps: IntArray


def evicting(problem: Problem, limits: Limits) -> Iterator[IntArray]:
    """Yield the run under the budget or, failing it, under the least that works.

    Nothing is evicted where the unplanned step fits.
    """
    whole = unplanned(problem)
    budget, most = limits.budget_bytes, int(peak(problem, whole))
    for part in range(_RAISES if budget < most else 0):
        machine = _machine(problem)
        if run_within(problem, machine, budget + (most - budget) * part // _RAISES):
            steps = machine.steps[: machine.totals[_SIZE]].copy()
            yield drop_dead(problem, steps)
            return
    yield whole


def _machine(problem: Problem) -> Machine:
    readers: list[list[int]] = [[] for _ in range(problem.num_values)]
    for op in range(problem.num_ops):
        reads = slice(problem.reads_at[op], problem.reads_at[op + 1])
        for value in problem.reads[reads].tolist():
            readers[value].append(op)
    readers_at, flat_readers = flat(readers)
    given = problem.producers < 0
    totals = np.zeros(4, dtype=np.int64)
    totals[_HELD] = problem.resident_bytes + int(problem.sizes[given].sum())
    return Machine(
        readers_at=readers_at,
        readers=flat_readers,
        live=given.copy(),
        locks=np.zeros(problem.num_values, dtype=np.int64),
        uses=np.diff(readers_at),
        touched=np.zeros(problem.num_values, dtype=np.int64),
        once=problem.pinned.copy(),
        ran=np.zeros(problem.num_ops, dtype=np.bool_),
        marks=np.zeros(problem.num_ops, dtype=np.int64),
        queue=np.zeros(problem.num_ops, dtype=np.int64),
        stack=np.zeros(problem.num_ops, dtype=np.int64),
        totals=totals,
        steps=np.zeros(_LONGEST * problem.num_ops, dtype=np.int64),
    )


@compiled
def run_within(problem: Problem, machine: Machine, budget: int) -> bool:
    """Run every op in order under a budget; False where it fails or thrashes.

    Each eviction is linear in the values live and the evicted ones around them.
    """
    for op in range(problem.num_ops):
        if not _perform(problem, machine, op, budget):
            return False
        machine.ran[op] = True
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            value = problem.reads[at]
            machine.uses[value] -= 1
            _let_go(problem, machine, value)
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            _let_go(problem, machine, problem.makes[at])
    return True


@compiled
def _perform(problem: Problem, machine: Machine, op: int, budget: int) -> bool:
    """Run an op, after the ops that make again what it reads and is not there."""
    stack = machine.stack
    stack[0] = op
    depth = 1
    _lock(problem, machine, op, 1)
    while depth > 0:
        top = stack[depth - 1]
        missing = -1
        for at in range(problem.reads_at[top], problem.reads_at[top + 1]):
            value = problem.reads[at]
            if not machine.live[value]:
                missing = problem.producers[value]
        if missing >= 0:
            stack[depth] = missing
            depth += 1
            _lock(problem, machine, missing, 1)
            continue
        if machine.totals[_SIZE] == len(machine.steps):
            return False
        if not _make_room(problem, machine, top, budget):
            return False
        _execute(problem, machine, top)
        _lock(problem, machine, top, -1)
        depth -= 1
        if depth > 0:
            for at in range(problem.reads_at[top], problem.reads_at[top + 1]):
                _let_go(problem, machine, problem.reads[at])
            for at in range(problem.makes_at[top], problem.makes_at[top + 1]):
                _let_go(problem, machine, problem.makes[at])
    return True


@compiled
def _lock(problem: Problem, machine: Machine, op: int, change: int) -> None:
    for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
        machine.locks[problem.reads[at]] += change


@compiled
def _execute(problem: Problem, machine: Machine, op: int) -> None:
    totals = machine.totals
    machine.steps[totals[_SIZE]] = op
    totals[_SIZE] += 1
    totals[_CLOCK] += problem.durations[op]
    for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
        machine.touched[problem.reads[at]] = totals[_CLOCK]
    for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
        value = problem.makes[at]
        machine.touched[value] = totals[_CLOCK]
        if not machine.live[value]:
            machine.live[value] = True
            totals[_HELD] += problem.sizes[value]


@compiled
def _evict(problem: Problem, machine: Machine, value: int) -> None:
    machine.live[value] = False
    machine.totals[_HELD] -= problem.sizes[value]


@compiled
def _may_go(problem: Problem, machine: Machine, value: int) -> bool:
    """Return whether a value is live, not in use and can be made again."""
    maker = problem.producers[value]
    if maker < 0 or machine.once[maker] or problem.is_output[value]:
        return False
    return bool(machine.live[value] and machine.locks[value] == 0)


@compiled
def _let_go(problem: Problem, machine: Machine, value: int) -> None:
    """Evict a value that the given order has no more use for, as soon as it may go."""
    if machine.uses[value] > 0 or machine.locks[value] > 0 or not machine.live[value]:
        return
    if _may_go(problem, machine, value):
        _evict(problem, machine, value)
    elif not problem.is_output[value]:
        _banish(problem, machine, value)


@compiled
def _banish(problem: Problem, machine: Machine, value: int) -> None:
    """Let go for good of what cannot be made again, unless something hangs on it.

    What was made from it then cannot be made again either, so it must be there.
    """
    readers = machine.readers[machine.readers_at[value] : machine.readers_at[value + 1]]
    for op in readers:
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            if not machine.live[problem.makes[at]]:
                return
    for op in readers:
        machine.once[op] = True
    _evict(problem, machine, value)


@compiled
def _make_room(problem: Problem, machine: Machine, op: int, budget: int) -> bool:
    need = problem.workspaces[op]
    for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
        value = problem.makes[at]
        need += 0 if machine.live[value] else problem.sizes[value]
    while machine.totals[_HELD] + need > budget:
        worst = -1
        least = np.inf
        for value in range(problem.num_values):
            if _may_go(problem, machine, value):
                stale = machine.totals[_CLOCK] - machine.touched[value] + 1
                score = _cost_around(problem, machine, value) / stale
                score /= max(problem.sizes[value], 1)
                if score < least:
                    worst, least = value, score
        if worst < 0:
            return False
        _evict(problem, machine, worst)
    return True


@compiled
def _cost_around(problem: Problem, machine: Machine, value: int) -> int:
    """Return the time of making a value and the evicted ones connected with it."""
    machine.totals[_STAMP] += 1
    origin = problem.producers[value]
    machine.marks[origin] = machine.totals[_STAMP]
    cost = problem.durations[origin]
    return int(
        cost + _before(problem, machine, origin) + _after(problem, machine, origin)
    )


@compiled
def _before(problem: Problem, machine: Machine, origin: int) -> int:
    """Return the time of the ops that would have to run for `origin` to run again."""
    machine.queue[0] = origin
    size, done, cost = 1, 0, 0
    while done < size:
        op = machine.queue[done]
        done += 1
        for at in range(problem.reads_at[op], problem.reads_at[op + 1]):
            maker = problem.producers[problem.reads[at]]
            if not machine.live[problem.reads[at]] and _enqueue(machine, maker, size):
                size += 1
                cost += problem.durations[maker]
    return cost


@compiled
def _after(problem: Problem, machine: Machine, origin: int) -> int:
    """Return the time of the evicted ops that `origin` would have to run for."""
    machine.queue[0] = origin
    size, done, cost = 1, 0, 0
    while done < size:
        op = machine.queue[done]
        done += 1
        for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
            value = problem.makes[at]
            for place in range(
                machine.readers_at[value], machine.readers_at[value + 1]
            ):
                reader = machine.readers[place]
                gone = machine.ran[reader] and _is_gone(problem, machine, reader)
                if gone and _enqueue(machine, reader, size):
                    size += 1
                    cost += problem.durations[reader]
    return cost


@compiled
def _enqueue(machine: Machine, op: int, size: int) -> bool:
    """Put an op that is not yet marked at the end of the queue."""
    if machine.marks[op] == machine.totals[_STAMP]:
        return False
    machine.marks[op] = machine.totals[_STAMP]
    machine.queue[size] = op
    return True


@compiled
def _is_gone(problem: Problem, machine: Machine, op: int) -> bool:
    """Return whether a value that an op made is evicted."""
    for at in range(problem.makes_at[op], problem.makes_at[op + 1]):
        if not machine.live[problem.makes[at]]:
            return True
    return False
