"""Any graph as a chain of segments that are run forward, again, and backward.

The methods for chains (binomial, chain program) speak of segments: run segment 3
forward, run it backward. A `Chain` says which ops that means: the forward cut at
positions, and for each segment the backward ops that can run once the segment has been
run from the values that cross into it.

```
 forward  | 0 1 2 | 3 4 | 5 6 7 |        segments 0, 1, 2
 backward | 12 13 | 11  | 8 9 10|        their backward ops, run from the last on
```

What a backward op reads from other segments than its own is kept whole. Where the
graph is no chain that makes the methods poorer, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from encamp.planner.jit import BoolArray, IntArray
from encamp.planner.problem import Problem
from encamp.planner.replay_fast import drop_dead

from .segments import articulations, kept_whole, last_reads, row, uniform_cuts

_MOST_SEGMENTS = 128
"""Longer chains are cut into so many segments of about equal bytes."""


class Run(Enum):
    """Which ops of a segment an action runs."""

    FORWARD = "forward"
    BACKWARD = "backward"


Action = tuple[Run, int]
"""One run of the segment with that number."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A problem cut into segments, numbered along the forward."""

    problem: Problem
    forward: tuple[tuple[int, ...], ...]
    """The forward ops of each segment."""
    backward: tuple[tuple[int, ...], ...]
    """The backward ops of each segment."""
    kept: BoolArray
    """Values that are made once and held until their last use."""
    first: IntArray
    """For each value the segment that makes it; backward ones count like forward."""
    last: IntArray
    """For each value of the forward the last segment whose forward reads it."""

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.forward)

    def again(self, segment: int) -> list[int]:
        """Return the ops that a second run of a segment's forward consists of."""
        return [op for op in self.forward[segment] if self._is_worth(op)]

    def _is_worth(self, op: int) -> bool:
        makes = row(self.problem.makes_at, self.problem.makes, op)
        return not (self.problem.pinned[op] or all(self.kept[makes]))


def chain_of(problem: Problem) -> Chain:
    """Return a problem as a chain, cut at its articulations. Linear in the graph.

    A cut is left out where no backward op reads what crosses it, such as the input of
    an activation function that is undone from its result: nobody would hold that.
    """
    positions = articulations(problem)
    backward = _chain(problem, positions).backward[1:]
    useful = [p for p, ops in zip(positions, backward, strict=True) if ops]
    if len(useful) >= _MOST_SEGMENTS:
        useful = uniform_cuts(problem, useful, _MOST_SEGMENTS)
    return _chain(problem, useful)


def _chain(problem: Problem, cuts: Sequence[int]) -> Chain:
    bounds = [0, *cuts, problem.num_forward]
    of_op = np.zeros(problem.num_ops, dtype=np.int64)
    of_op[: problem.num_forward] = np.repeat(
        np.arange(len(bounds) - 1), np.diff(bounds)
    )
    kept = kept_whole(problem)
    early = (problem.producers >= 0) & (problem.producers < problem.num_forward)
    last = np.where(early, of_op[np.clip(last_reads(problem), 0, None)], -1)
    free = early & ~kept
    _level_backward(problem, free, last, of_op)
    first = np.where(problem.producers >= 0, of_op[problem.producers], -1)
    for op in range(problem.num_forward, problem.num_ops):
        for value in row(problem.reads_at, problem.reads, op):
            # It reads what its own segment's run does not make: hold that instead.
            kept[value] |= free[value] and first[value] > of_op[op]
    segments = range(len(bounds) - 1)
    return Chain(
        problem=problem,
        forward=tuple(tuple(range(bounds[s], bounds[s + 1])) for s in segments),
        backward=_grouped(of_op, problem.num_forward, len(segments)),
        kept=kept,
        first=first,
        last=last,
    )


def _level_backward(
    problem: Problem, free: BoolArray, last: IntArray, of_op: IntArray
) -> None:
    """Write the segment of each backward op: the last that has all it reads.

    It is no later than that of an op it depends on, so that running the segments from
    the last to the first respects every dependency.
    """
    end = int(of_op[problem.num_forward - 1])
    for op in range(problem.num_forward, problem.num_ops):
        levels = [end]
        levels += [
            int(last[value])
            for value in row(problem.reads_at, problem.reads, op)
            if free[value]
        ]
        for maker in row(problem.follows_at, problem.follows, op):
            if maker >= problem.num_forward:
                levels.append(int(of_op[maker]))
        of_op[op] = min(levels)


def _grouped(of_op: IntArray, first: int, count: int) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = [[] for _ in range(count)]
    for op in range(first, len(of_op)):
        groups[of_op[op]].append(op)
    return tuple(map(tuple, groups))


def unroll(chain: Chain, actions: Iterable[Action]) -> IntArray:
    """Return the schedule of runs of segments, without the runs no use binds to.

    The first forward run of a segment runs all its ops, later ones those that may and
    need to. What is kept between runs follows: a value is held until its last use
    before it is made anew. Linear in the ops run.
    """
    steps: list[int] = []
    again = [chain.again(segment) for segment in range(len(chain))]
    fresh = [True] * len(chain)
    for run, segment in actions:
        if run is Run.BACKWARD:
            steps += chain.backward[segment]
        elif fresh[segment]:
            steps += chain.forward[segment]
            fresh[segment] = False
        else:
            steps += again[segment]
    return drop_dead(chain.problem, np.array(steps, dtype=np.int64))
