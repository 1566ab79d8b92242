"""Chen's greedy: a segment ends once it has made more than a number of bytes.

Algorithm 3 of Chen, Xu, Zhang, Guestrin: "Training Deep Nets with Sublinear Memory
Cost", 2016, arXiv:1604.06174. The number of bytes is the method's parameter; the paper
searches it on a grid, and so does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem

from .method import Limits
from .segments import anywhere, articulations, checkpointed, made_bytes

_PER_DOUBLING = 4
"""Sizes of a segment that are tried for each factor of two."""


def greedy_cuts(
    problem: Problem, positions: Sequence[int], segment_bytes: int
) -> list[int]:
    """Return the first of `positions` where each segment is over `segment_bytes`."""
    made = made_bytes(problem).tolist()
    cuts: list[int] = []
    start = 0
    for position in positions:
        if made[position] - made[start] > segment_bytes:
            cuts.append(position)
            start = position
    return cuts


def chen_greedy(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the schedules of segments of all sizes, from the whole forward down."""
    total = int(made_bytes(problem)[-1])
    for positions in (articulations(problem), anywhere(problem)):
        seen: set[tuple[int, ...]] = set()
        for size in _sizes(total, len(positions) + 1):
            cuts = greedy_cuts(problem, positions, size)
            if tuple(cuts) not in seen:
                seen.add(tuple(cuts))
                yield checkpointed(problem, cuts)


def _sizes(total: int, parts: int) -> Iterator[int]:
    """Yield sizes from `total` down to about a `parts`-th of it, then none at all."""
    for step in range(_PER_DOUBLING * parts.bit_length() + 1):
        yield int(total / 2 ** (step / _PER_DOUBLING))
    yield 0
