"""Lower bounds on the added duration at a budget, and on the budget itself.

Every bound comes with the op it was proved at, so that a person can look there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from encamp.plan import Order

from .cut import FREE_OF_CHARGE, Cut, Price, moment, turn
from .problem import Problem

_CUTTING_PLANES = 24
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
    _turn: Cut | None = field(default=None, repr=False)
    _moments: list[int] = field(default_factory=list, repr=False)
    _leaders: dict[Order, int] = field(default_factory=dict, repr=False)

    def at(self, op: int, order: Order = Order.FREE) -> Cut:
        """Return the cut at the first run of `op`."""
        if (op, order) not in self._known:
            self._known[op, order] = Cut(self.problem, moment(self.problem, op, order))
        return self._known[op, order]

    def at_turn(self) -> Cut:
        """Return the cut at the first backward step, whichever op that runs."""
        if self._turn is None:
            self._turn = Cut(self.problem, turn(self.problem))
        return self._turn

    def worth_trying(self, order: Order) -> list[int]:
        """Return the ops worth a cut, the one that was best last time first."""
        if not self._moments:
            self._moments = moments(self.problem)
        ops = list(self._moments)
        if order in self._leaders:
            ops = list(dict.fromkeys([self._leaders[order], *ops]))
        return ops

    def lead(self, order: Order, op: int) -> None:
        """Note that the cut at `op` was the best."""
        self._leaders[order] = op


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


def bound(
    cut: Cut,
    budget: int,
    *,
    above: int = -1,
    stop: Callable[[], bool] = lambda: False,
) -> Bound:
    """Return the best bound of one cut: the cutting-plane method on the price.

    The bound is concave in the price, and each choice known so far is a line above
    it, whose slope is its bytes over the budget. The cut at the top of these lines
    adds another until none lies below. It ends early where the top shows that no
    price proves more than `above`, or when told to `stop`.
    """
    op = cut.at.op
    flow, over = cut.unpriced()
    best = Bound(cut.bound_at(FREE_OF_CHARGE, flow, budget), op)
    if over.held_bytes <= budget:
        return best
    least, _ = cut.least_bytes()
    if least > budget:
        return Bound(None, op, least_bytes=least)
    for _ in range(_CUTTING_PLANES):
        ceiling, price = _top(cut, budget)
        if ceiling <= above or stop():
            break
        known = len(cut.lines)
        flow, _ = cut.priced(price)
        added = cut.bound_at(price, flow, budget)
        if added > (best.added_ns or 0):
            best = Bound(added, op, price)
        if len(cut.lines) == known:
            break
    return best


def _top(cut: Cut, budget: int) -> tuple[float, Price]:
    """Return the top of the least of all lines known, and the price there.

    It is where a line of a choice over the budget crosses one of a choice within it.
    """
    lines = list(cut.lines)
    added = np.array([ns for ns, _ in lines], dtype=np.float64)
    slope = np.array([held - budget for _, held in lines], dtype=np.float64)
    overs, unders = np.flatnonzero(slope > 0), np.flatnonzero(slope <= 0)
    run = added[unders][None, :] - added[overs][:, None]
    rise = slope[overs][:, None] - slope[unders][None, :]
    prices = np.maximum(run / rise, 0.0).ravel()
    heights = (added[None, :] + prices[:, None] * slope[None, :]).min(axis=1)
    at = int(heights.argmax())
    over = lines[overs[at // len(unders)]]
    under = lines[unders[at % len(unders)]]
    numerator = max(under[0] - over[0], 0) * cut.unit
    return float(heights[at]), Price.of(numerator, over[1] - under[1])


def best_bound(
    cuts: Cuts,
    order: Order,
    budget: int,
    *,
    pay: Callable[[int], None],
    stop: Callable[[], bool],
) -> Iterator[Bound]:
    """Yield each bound that beats those before it; a proof of infeasibility ends it.

    What the flows cost is paid, in arcs, as it comes; `stop` ends the search.
    """
    best = -1
    for op in cuts.worth_trying(order):
        if stop():
            return
        cut = cuts.at(op, order)
        before = cut.work
        found = bound(cut, budget, above=best, stop=stop)
        pay(cut.work - before)
        if found.added_ns is None or found.added_ns > best:
            cuts.lead(order, op)
            yield found
        if found.added_ns is None:
            return
        best = max(best, found.added_ns)
