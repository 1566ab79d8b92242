"""The closure bound: what the values that an op reads must have had live before them.

Take values that are live together. The one made last came from some run; all its op
makes and reads was live then beside the others, and just before it the others were
live beside what it reads. So any schedule within a budget leads back, by steps that all
fit, from what an op reads to nothing at all. Where no such way exists, no schedule
fits, whatever its order and however often its ops run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from .bounds import working_sets
from .clock import Clock
from .problem import Problem

_MOST_STATES = 3000
"""Sets of values looked at for one op and budget; beyond that nothing is claimed."""
_MOST_OPS = 16
"""Ops that are tried; those after them have hardly ever proved more."""
_RESOLUTION = 1000
"""A bound is raised by no less than one part in so many."""
_STEPS_PER_STATE = 2000
"""Elementary steps of looking at one set."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """What each op reads and makes as sets of values: one bit for each."""

    problem: Problem
    reads: list[int] = field(init=False)
    makes: list[int] = field(init=False)
    makers: list[int] = field(init=False)
    sizes: list[int] = field(init=False)
    workspaces: list[int] = field(init=False)
    given: int = field(init=False)
    """Values without a producer, from which the way back ends."""

    def __post_init__(self) -> None:
        problem = self.problem
        sets = [
            [_set_of(flat[at[op] : at[op + 1]]) for op in range(problem.num_ops)]
            for at, flat in (
                (problem.reads_at, problem.reads),
                (problem.makes_at, problem.makes),
            )
        ]
        object.__setattr__(self, "reads", sets[0])
        object.__setattr__(self, "makes", sets[1])
        object.__setattr__(self, "makers", problem.producers.tolist())
        object.__setattr__(self, "sizes", problem.sizes.tolist())
        object.__setattr__(self, "workspaces", problem.workspaces.tolist())
        given = np.flatnonzero(problem.producers < 0)
        object.__setattr__(self, "given", _set_of(given))

    def bytes_of(self, values: int) -> int:
        """Return the bytes of a set of values."""
        return sum(self.sizes[value] for value in _members(values))

    def leads_back(self, op: int, room: int, clock: Clock) -> bool:
        """Return whether an op can be reached within `room` bytes, or may be.

        True also where the search is too long. Best first by bytes.
        """
        needed = self.reads[op] | self.makes[op]
        if self.bytes_of(needed) + self.workspaces[op] > room:
            return False
        start = self.reads[op] & ~self.given
        queue, seen = [(self.bytes_of(start), start)], {start}
        looked = 0
        while queue and queue[0][1] and looked < _MOST_STATES:
            held, values = heappop(queue)
            looked += 1
            for bytes_before, before in self._before(values, held, room):
                if before not in seen:
                    seen.add(before)
                    heappush(queue, (bytes_before, before))
        clock.pay(looked * _STEPS_PER_STATE)
        return bool(queue)

    def _before(self, values: int, held: int, room: int) -> list[tuple[int, int]]:
        """Return the sets that may be live just before the last of `values` is made.

        Each comes with its bytes. An op that reads nothing but some of them leaves
        less to make: where it fits, no other way back from here need be looked at.
        """
        found = []
        for op in {self.makers[value] for value in _members(values)}:
            reads = self.reads[op] & ~values
            makes = self.makes[op]
            beside = self.bytes_of(reads | (makes & ~values)) + self.workspaces[op]
            if held + beside > room:
                continue
            reads &= ~self.given
            before = (values & ~makes) | reads
            left = held - self.bytes_of(values & makes) + self.bytes_of(reads)
            if not reads:
                return [(left, before)]
            found.append((left, before))
        return found


def closure_bound(problem: Problem, least: int, clock: Clock) -> tuple[int, int] | None:
    """Return the best bound in bytes above `least` and the op that proves it, or None.

    Tries the ops with the largest working sets. Each costs a search over sets of
    values for every budget that is tried, of a size that does not grow with the graph.
    """
    runs, best = _Runs(problem), None
    sizes = working_sets(problem)
    largest = sorted(range(problem.num_ops), key=lambda op: (-sizes[op], op))
    for op in largest[:_MOST_OPS]:
        raised = _raise(runs, op, least, clock)
        if raised > least:
            best, least = (raised, op), raised
        if clock.is_over():
            break
    return best


def _raise(runs: _Runs, op: int, least: int, clock: Clock) -> int:
    """Return one more than the largest budget that an op is proved to exceed.

    Goes up from `least` by steps that double, then closes in by halves.
    """
    resident = runs.problem.resident_bytes
    finest = max(1, least // _RESOLUTION)
    low, high, step = least, None, finest
    while not clock.is_over() and (high is None or high - low >= finest):
        budget = low + step - 1 if high is None else (low + high) // 2
        if runs.leads_back(op, budget - resident, clock):
            high = budget
        else:
            low, step = budget + 1, 2 * step
    return low


def _set_of(values: np.ndarray) -> int:
    found = 0
    for value in values.tolist():
        found |= 1 << value
    return found


def _members(values: int) -> Iterator[int]:
    """Yield the members of a set."""
    while values:
        lowest = values & -values
        yield lowest.bit_length() - 1
        values ^= lowest
