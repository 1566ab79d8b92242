"""Forward ops that serve the backward only, moved to where their segment is.

A traced forward ends with ops that no other forward op reads from: parts of the
backward that need no gradient, such as the square of a normalisation's scale. A value
that crosses the whole forward to be read there would leave no place to cut it. Run as
soon as what they read is there, these ops belong to the segment that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from encamp.planner.jit import IntArray
from encamp.planner.problem import NO_OP, Problem, flat

from .method import Limits
from .segments import row

Schedules = Callable[[Problem, Limits], Iterable[IntArray]]


def in_both_orders(schedules: Schedules) -> Schedules:
    """Return a method's schedules of the given order, then of that with side ops early.

    Early side ops let every segment be recomputed; where they are, all of their values
    can be held as part of the last segment.
    """

    def all_of_them(problem: Problem, limits: Limits) -> Iterator[IntArray]:
        yield from schedules(problem, limits)
        order = side_ops_early(problem)
        if not np.array_equal(order, np.arange(problem.num_ops)):
            for steps in schedules(reordered(problem, order), limits):
                yield order[steps]

    return all_of_them


def side_ops_early(problem: Problem) -> IntArray:
    """Return the ops in an order that can run, side ops as early as they can.

    A side op makes no output, and only side ops of the forward depend on it.
    """
    side = np.ones(problem.num_ops, dtype=np.bool_)
    side[problem.num_forward :] = False
    side[problem.producers[problem.is_output & (problem.producers >= 0)]] = False
    anchors = np.arange(problem.num_ops)
    forward = range(problem.num_forward)
    for op in reversed(forward):
        if not side[op]:
            side[row(problem.follows_at, problem.follows, op)] = False
    for op in forward:
        makers = row(problem.follows_at, problem.follows, op)
        if side[op] and makers:
            anchors[op] = anchors[makers].max()
    # Stable: an op comes after all with a smaller number that share its anchor.
    return np.argsort(anchors, kind="stable")


def reordered(problem: Problem, order: IntArray) -> Problem:
    """Return the problem whose op `i` is op `order[i]`. Linear in the problem."""
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    ops = order.tolist()
    reads_at, reads = flat([row(problem.reads_at, problem.reads, op) for op in ops])
    makes_at, makes = flat([row(problem.makes_at, problem.makes, op) for op in ops])
    follows_at, follows = flat(
        [number[row(problem.follows_at, problem.follows, op)].tolist() for op in ops]
    )
    made = problem.producers >= 0
    return problem._replace(
        durations=problem.durations[order],
        workspaces=problem.workspaces[order],
        pinned=problem.pinned[order],
        producers=np.where(made, number[problem.producers], NO_OP),
        reads_at=reads_at,
        reads=reads,
        makes_at=makes_at,
        makes=makes,
        follows_at=follows_at,
        follows=follows,
    )
