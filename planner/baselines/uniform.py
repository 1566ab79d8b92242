"""Segments of equal bytes, of a given number or by the square-root rule.

Chen, Xu, Zhang, Guestrin: "Training Deep Nets with Sublinear Memory Cost", 2016,
arXiv:1604.06174. The forward is cut into k segments; what crosses the cuts is kept and
each segment is run once more for its backward. With k near the square root of the
number of ops, kept and recomputed bytes balance at O(sqrt n) for one extra forward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem

from .method import Limits
from .segments import anywhere, articulations, checkpointed, counts, uniform_cuts


def uniform(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the schedules of two and more segments of equal bytes."""
    for positions in (articulations(problem), anywhere(problem)):
        seen: set[tuple[int, ...]] = set()
        for count in counts(len(positions) + 1):
            cuts = uniform_cuts(problem, positions, count)
            if tuple(cuts) not in seen:
                seen.add(tuple(cuts))
                yield checkpointed(problem, cuts)


def square_root(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the schedules of about sqrt(n) segments of a line of n ops.

    One line has a cut at every op, the other at articulations only.
    """
    for positions in (articulations(problem), anywhere(problem)):
        count = round(math.sqrt(len(positions) + 1))
        yield checkpointed(problem, uniform_cuts(problem, positions, count))
