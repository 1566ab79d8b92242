"""The minimum cut between forward and backward: what PyTorch's partitioner decides.

The values saved across the boundary and the ops the backward runs again are a minimum
cut of the joint graph (He: "Min-cut optimal(*) recomputation (i.e. activation
checkpointing) with AOTAutograd", PyTorch developer forum, 2022; the partitioner
`min_cut_rematerialization_partition` of torch/_functorch/partitioners.py). It looks at
the bytes saved, so the peaks inside forward and backward go unseen. Here the price of a
byte saved is swept, from nothing to more than all durations.
"""

from __future__ import annotations

from collections.abc import Iterator

from encamp.plan import Order
from encamp.planner.cut import Choice, Cut, Price, moment
from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem
from encamp.planner.start import from_held, unplanned

from .method import Limits

_DEPTH = 7
"""Between two choices the price is halved so often at most: 2**7 cuts in all."""


def boundary_cut(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the schedules of the cut at the boundary, one for each price that matters.

    Each takes one maximum flow; there are at most about 130.
    """
    if problem.num_forward == problem.num_ops:
        yield unplanned(problem)
        return
    cut = Cut(problem, moment(problem, problem.num_forward, Order.GIVEN))
    dearest, least = cut.most_bytes(), cut.least_bytes()[1]
    for choice in (dearest, *_between(cut, dearest, least, _DEPTH), least):
        yield from_held(problem, choice.held | cut.at.fixed)


def _between(cut: Cut, over: Choice, under: Choice, depth: int) -> Iterator[Choice]:
    """Yield the choices on the lower hull of bytes and time between two of them."""
    spared, added = over.held_bytes - under.held_bytes, under.added_ns - over.added_ns
    if depth == 0 or spared <= 0 or added <= 0:
        return
    _, middle = cut.priced(Price.of(added * cut.unit, spared))
    if not under.held_bytes < middle.held_bytes < over.held_bytes:
        return
    yield from _between(cut, over, middle, depth - 1)
    yield middle
    yield from _between(cut, middle, under, depth - 1)
