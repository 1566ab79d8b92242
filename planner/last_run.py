"""The last-run bound: what the last run among some ops must leave in memory.

Take a set of ops and the last moment at which one of them runs, say `c`. After it none
of them runs again, so every output of the step is live then or made later by ops
outside the set. `c`'s own values and workspace are live too. The fewest bytes for that
are a minimum cut, and the least over all `c` of the set bounds the peak of every
schedule, in any order. Sets of the ops with the largest working sets serve best: they
exclude the schedules that make the hardest part of the step twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from ortools.graph.python import max_flow  # type: ignore[import-untyped]

from encamp.errors import InternalError

from .bounds import working_sets
from .clock import Clock
from .jit import BoolArray, IntArray
from .problem import Problem

_SOURCE, _SINK, _FIRST = 0, 1, 2
_ALWAYS = 2**61
_THRESHOLDS = 24


@dataclass(slots=True)
class _LastRuns:
    """The network of one set: `last` runs none of its ops after the moment."""

    problem: Problem
    last: BoolArray
    _standing: BoolArray = field(init=False, repr=False)
    _flow: max_flow.SimpleMaxFlow = field(init=False, repr=False)
    _holds: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        problem = self.problem
        makers, have = problem.producers, np.arange(problem.num_values)
        have += _FIRST + problem.num_ops
        over = self.last.copy()
        self._standing = np.zeros(problem.num_values, dtype=np.bool_)
        if self.last[problem.num_forward :].any():
            # The backward has begun: the forward is over, and its outputs stand.
            over[: problem.num_forward] |= problem.pinned[: problem.num_forward]
            self._standing |= problem.is_output & (makers < problem.num_forward)
        run = np.where(over, _SOURCE, np.arange(problem.num_ops) + _FIRST)
        tails = np.where(makers < 0, _SOURCE, run[makers])
        self._flow = max_flow.SimpleMaxFlow()
        self._holds = self._add(tails, have, problem.sizes)
        readers = run[np.repeat(np.arange(problem.num_ops), np.diff(problem.reads_at))]
        again = readers != _SOURCE
        self._add(have[problem.reads[again]], readers[again], _ALWAYS)
        ends = have[problem.is_output & ~self._standing]
        self._add(ends, np.full_like(ends, _SINK), _ALWAYS)

    def _add(self, tails: IntArray, heads: IntArray, size: IntArray | int) -> IntArray:
        sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), tails.shape)
        arcs = self._flow.add_arcs_with_capacity(
            tails.astype(np.int32), heads.astype(np.int32), sizes
        )
        return np.asarray(arcs)

    @property
    def num_arcs(self) -> int:
        """How many arcs the network has."""
        return int(self._flow.num_arcs())

    def least_bytes(self, op: int) -> int:
        """Return the fewest bytes held if `op` is the last of the set to run."""
        problem = self.problem
        fixed = self._standing.copy()
        fixed[problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]]] = True
        fixed[problem.makes[problem.makes_at[op] : problem.makes_at[op + 1]]] = True
        if len(self._holds):
            charges = np.where(fixed, 0, problem.sizes)
            self._flow.set_arcs_capacity(self._holds, charges)
        held = int(problem.sizes[fixed].sum() + problem.workspaces[op])
        return problem.resident_bytes + held + self._least_flow()

    def _least_flow(self) -> int:
        if not self._flow.num_arcs():
            return 0
        status = self._flow.solve(_SOURCE, _SINK)
        if status != self._flow.OPTIMAL:
            msg = f"the maximum flow of the last-run bound ended with {status}"
            raise InternalError(msg)
        return int(self._flow.optimal_flow())


def last_run_bound(
    problem: Problem, least: int, clock: Clock
) -> tuple[int, int] | None:
    """Return the best bound above `least` and an op that attains it, or None.

    Tries sets of the largest working sets, from small to large, until the clock is
    over. One maximum flow for each op of each set.
    """
    sizes = np.array(working_sets(problem), dtype=np.int64)
    levels = np.unique(sizes)[::-1]
    best = None
    for level in levels[:: max(1, len(levels) // _THRESHOLDS)]:
        found = _bound_of_set(problem, sizes >= level, least, clock)
        if found is not None:
            best, least = found, found[0]
        if clock.is_over():
            break
    return best


def _bound_of_set(
    problem: Problem, last: BoolArray, least: int, clock: Clock
) -> tuple[int, int] | None:
    """Return the least bytes of a set's last run and its op, if over `least`."""
    runs = _LastRuns(problem, last)
    lowest: tuple[int, int] | None = None
    for op in np.flatnonzero(last).tolist():
        held = runs.least_bytes(op)
        clock.pay(runs.num_arcs)
        if held <= least or clock.is_over():
            return None
        if lowest is None or held < lowest[0]:
            lowest = (held, op)
    return lowest
