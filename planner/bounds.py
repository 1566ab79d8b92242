"""Lower bounds on the added duration at a budget, and on the budget itself.

Every bound comes with the op it was proved at, so that a person can look there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from encamp.plan import Order

from .cut import FREE_OF_CHARGE, Choice, Cut, Price, moment
from .problem import Problem

_NEWTON_STEPS = 24
_EVERY_OP = 500
"""Up to this many ops, every one is tried as the moment of the cut."""
_EARLY, _SPREAD, _LARGE = 60, 60, 12
"""Above it: so many of the first backward ops, spread evenly, and of the largest."""


@dataclass(frozen=True, slots=True)
class Bound:
    """At least `added_ns` are added by any schedule: proved at `op` with `price`.

    `added_ns` is None where no schedule fits at all; then `least_bytes` is what any
    schedule holds at `op`.
    """

    added_ns: int | None
    op: int
    price: Price = FREE_OF_CHARGE
    least_bytes: int = 0


@dataclass(slots=True)
class Cuts:
    """The cuts of a problem at its ops, each built when first asked for."""

    problem: Problem
    _known: dict[tuple[int, Order], Cut] = field(default_factory=dict, repr=False)

    def at(self, op: int, order: Order = Order.FREE) -> Cut:
        """Return the cut at the first run of `op`."""
        if (op, order) not in self._known:
            self._known[op, order] = Cut(self.problem, moment(self.problem, op, order))
        return self._known[op, order]


def working_sets(problem: Problem) -> list[int]:
    """Return for each op the bytes of its values and its workspace."""
    return [
        int(
            problem.sizes[
                np.union1d(
                    problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]],
                    problem.makes[problem.makes_at[op] : problem.makes_at[op + 1]],
                )
            ].sum()
            + problem.workspaces[op]
        )
        for op in range(problem.num_ops)
    ]


def outputs_floor(problem: Problem) -> Bound:
    """Return what any schedule holds at its last step: all outputs and residents.

    The cuts let an output be made again later, so none of them sees all at once.
    """
    held = problem.resident_bytes + int(problem.sizes[problem.is_output].sum())
    return Bound(None, problem.num_ops - 1, least_bytes=held)


def moments(problem: Problem) -> list[int]:
    """Return the ops worth a cut, the most promising first.

    The best is usually among the first backward ops: the loss and the head.
    """
    first = problem.num_forward
    if problem.num_ops <= _EVERY_OP:
        return [*range(first, problem.num_ops), *range(first - 1, -1, -1)]
    count = problem.num_ops
    by_size = np.argsort(-np.array(working_sets(problem)), kind="stable")
    chosen = [
        *range(first, min(first + _EARLY, count)),
        *range(first, count, max(1, (count - first) // _SPREAD)),
        *(int(op) for op in by_size[:_LARGE]),
    ]
    return list(dict.fromkeys(chosen))


def bound(cut: Cut, budget: int) -> Bound:
    """Return the best bound of one cut: Newton's method on the price.

    The bound is concave in the price and its slope is the bytes over the budget, so
    the lines of two choices, one over and one under it, cross above the maximum; the
    cut at the crossing replaces one of them until none lies below it.
    """
    op = cut.at.op
    over = cut.most_bytes()
    if over.held_bytes <= budget:
        return Bound(0, op)
    least, under = cut.least_bytes()
    if least > budget:
        return Bound(None, op, least_bytes=least)
    best = Bound(0, op)
    for _ in range(_NEWTON_STEPS):
        price = _crossing(cut, over, under)
        flow, choice = cut.priced(price)
        added = cut.bound_at(price, flow, budget)
        if added > (best.added_ns or 0):
            best = Bound(added, op, price)
        if _same_line(choice, over) or _same_line(choice, under):
            break
        if choice.held_bytes > budget:
            over = choice
        else:
            under = choice
    return best


def _crossing(cut: Cut, over: Choice, under: Choice) -> Price:
    added = under.added_ns - over.added_ns
    return Price.of(max(added, 0) * cut.unit, over.held_bytes - under.held_bytes)


def _same_line(one: Choice, other: Choice) -> bool:
    return (one.added_ns, one.held_bytes) == (other.added_ns, other.held_bytes)


def best_bound(cuts: Cuts, budget: int, ops: Iterable[int]) -> Iterator[Bound]:
    """Yield each bound that beats those before it; a proof of infeasibility ends it."""
    best = -1
    for op in ops:
        found = bound(cuts.at(op), budget)
        if found.added_ns is None:
            yield found
            return
        if found.added_ns > best:
            best = found.added_ns
            yield found
