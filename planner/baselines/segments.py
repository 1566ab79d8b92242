"""Cutting the forward into segments: where it can be cut, and what crosses a cut.

A cut at position `p` lies before the forward op `p`. What crosses it are the values
made before and read by a forward op after it: who holds them can run the forward on
from there. On a plain chain one value crosses every cut.

```
 position      1        2        3
 op       0 ──a──> 1 ──b──> 2 ──c──> 3        s is a skip connection
          └────────s────────^
 crossing     a s      b s       c            position 3 is an articulation
```

Two readings carry a method for chains over to any graph (Jain et al., Checkmate, MLSys
2020, section 6): cut at articulations only, or anywhere, as if the order were a chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from encamp.planner.jit import BoolArray, IntArray
from encamp.planner.problem import Problem
from encamp.planner.start import from_held

_SHARED = 2
"""A value read across more than one in so many forward ops belongs to no segment."""
_EACH, _RATIO = 32, 1.25
"""Counts of segments are tried one by one up to here, then each larger by a ratio."""


def row(offsets: IntArray, flat: IntArray, index: int) -> list[int]:
    """Return one of the lists of varying length that are stored flat."""
    found: list[int] = flat[offsets[index] : offsets[index + 1]].tolist()
    return found


def last_reads(problem: Problem) -> IntArray:
    """Return for each value the last forward op that reads it, or its producer."""
    readers = np.repeat(np.arange(problem.num_ops), np.diff(problem.reads_at))
    last = problem.producers.copy()
    early = readers < problem.num_forward
    np.maximum.at(last, problem.reads[early], readers[early])
    return last


def kept_whole(problem: Problem) -> BoolArray:
    """Return the values of the forward that no segment recomputes.

    The step is given them, returns them or cannot make them again; or they are read
    all over the forward, like a mask or a table of positions.
    """
    makers = problem.producers
    spread = _SHARED * (last_reads(problem) - makers) > problem.num_forward
    fixed = (makers < 0) | problem.is_output | problem.pinned[makers]
    kept: BoolArray = (makers < problem.num_forward) & (fixed | spread)
    return kept


def anywhere(problem: Problem) -> list[int]:
    """Return every position of the forward."""
    return list(range(1, problem.num_forward))


def articulations(problem: Problem) -> list[int]:
    """Return the positions that at most one value crosses.

    Values kept whole do not count. Linear in the values and the forward ops.
    """
    last = last_reads(problem)
    counted = ~kept_whole(problem) & (problem.producers < problem.num_forward)
    change = np.zeros(problem.num_forward + 1, dtype=np.int64)
    np.add.at(change, problem.producers[counted] + 1, 1)
    np.add.at(change, np.minimum(last[counted] + 1, problem.num_forward), -1)
    across = np.cumsum(change)
    return [p for p in anywhere(problem) if across[p] <= 1]


def made_bytes(problem: Problem) -> IntArray:
    """Return the bytes made before each forward position, the end included."""
    makers = np.repeat(np.arange(problem.num_ops), np.diff(problem.makes_at))
    forward = makers < problem.num_forward
    made = np.zeros(problem.num_forward + 1, dtype=np.int64)
    np.add.at(made, makers[forward] + 1, problem.sizes[problem.makes[forward]])
    return np.cumsum(made)


def uniform_cuts(problem: Problem, positions: Sequence[int], count: int) -> list[int]:
    """Return the cuts of `positions` nearest to `count` segments of equal bytes."""
    if not positions:
        return []
    made = made_bytes(problem)
    at = made[list(positions)]
    chosen = set()
    for part in range(1, count):
        target = int(made[-1]) * part // count
        after = min(int(np.searchsorted(at, target)), len(at) - 1)
        before = max(after - 1, 0)
        nearer = target - at[before] <= at[after] - target
        chosen.add(positions[before if nearer else after])
    return sorted(chosen)


def counts(most: int) -> Iterator[int]:
    """Yield numbers of segments from 2 to `most`, sparser as they grow."""
    count = 2
    while count <= most:
        yield count
        count = count + 1 if count < _EACH else math.ceil(count * _RATIO)


def checkpointed(problem: Problem, cuts: Iterable[int]) -> IntArray:
    """Return the schedule that keeps what crosses `cuts` and all of the last segment.

    What a backward op needs from another segment is recomputed just before it, from
    the values kept, and then stays until its last use. Quadratic in the ops.
    """
    last = last_reads(problem)
    forward = problem.producers < problem.num_forward
    held = np.zeros(problem.num_values, dtype=np.bool_)
    end = 0
    for cut in cuts:
        held |= forward & (problem.producers < cut) & (cut <= last)
        end = max(end, cut)
    return from_held(problem, held | forward & (problem.producers >= end))
