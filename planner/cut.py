"""The priced cut: a lower bound on any schedule, from one moment of it.

Look at the first run of an op `b`. The ops before it (its ancestors, and the whole
forward if `b` is backward) have run; the ops after it (its descendants, and the whole
backward if `b` is forward) have not. Whatever the ops after it read is either live at
that moment or made by a later run, and a later run of an op before it is a
recomputation. `b`'s own inputs, outputs and workspace are live, and so are the
forward's outputs once the backward has begun. With a price per byte held, the
cheapest choice is a minimum cut:

```
 source ──duration──> run(o)          o runs after b          (no cost if o is neither)
 run(o) ──price*bytes──> have(v)      v, made by o, is held at b
 have(u) ──always──> run(o)           a run of o reads u
 have(v) ──always──> sink             an op after b reads v
```

so `flow - price * (budget - bytes b fixes)` bounds the added duration from below for
every order and any number of runs (Lagrangian duality, weak direction). Capacities
are floors and the price is a ratio of integers, so the bound holds in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from ortools.graph.python import max_flow  # type: ignore[import-untyped]

from encamp.errors import InternalError
from encamp.plan import Order

from .jit import BoolArray, IntArray, compiled
from .problem import Problem

_SOURCE, _SINK, _FIRST = 0, 1, 2
_MANTISSA_BITS = 20
_HALF_BITS = 27
_FLOW_BITS = 60


class Moment(NamedTuple):
    """What is certain when an op runs for the first time."""

    op: int
    before: BoolArray
    """Ops that have run."""
    after: BoolArray
    """Ops that have not run."""
    fixed: BoolArray
    """Values that are live whatever the schedule."""
    barred: BoolArray
    """Values that a rule forbids to be live then."""
    fixed_bytes: int
    """Bytes of those that are fixed, of residents and of the op's workspace."""


class Price(NamedTuple):
    """Scaled nanoseconds per byte: `mantissa / 2**shift`."""

    mantissa: int
    shift: int

    @classmethod
    def of(cls, numerator: int, denominator: int) -> Price:
        """Return the largest price of 20 bits that is no more than the ratio."""
        shift = _MANTISSA_BITS - numerator.bit_length() + denominator.bit_length()
        if shift >= 0:
            return cls((numerator << shift) // denominator, shift)
        return cls((numerator // denominator) >> -shift << -shift, 0)

    def scaled(self, numerator: int, denominator: int) -> Price:
        """Return this price times a ratio."""
        return Price.of(self.mantissa * numerator, denominator << self.shift)


FREE_OF_CHARGE = Price(0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is held at a moment and what runs again after it, with the cost of both."""

    held: BoolArray
    again: BoolArray
    held_bytes: int
    added_ns: int


def moment(problem: Problem, op: int, order: Order) -> Moment:
    """Return what is certain at the first run of `op`.

    With `Order.GIVEN` first runs are in op order, which makes more of it certain and
    the bound hold for such schedules only.
    """
    if order is Order.GIVEN:
        before = np.arange(problem.num_ops) < op
        after = np.arange(problem.num_ops) > op
    else:
        before, after = _related(problem, op)
    fixed = np.zeros(problem.num_values, dtype=np.bool_)
    fixed[problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]]] = True
    fixed[problem.makes[problem.makes_at[op] : problem.makes_at[op + 1]]] = True
    if op >= problem.num_forward:
        fixed |= problem.is_output & (problem.producers < problem.num_forward)
    at_turn = order is Order.GIVEN and op == problem.num_forward
    barred = problem.barred & ~fixed & at_turn
    fixed_bytes = int(problem.sizes[fixed].sum()) + int(problem.workspaces[op])
    fixed_bytes += problem.resident_bytes
    return Moment(op, before, after, fixed, barred, fixed_bytes)


def turn(problem: Problem) -> Moment:
    """Return what is certain at the first backward step, whichever op that runs.

    A value that some backward op reads which may be the first is not barred.
    """
    ops = np.arange(problem.num_ops)
    before = ops < problem.num_forward
    fixed = problem.is_output & (problem.producers < problem.num_forward)
    fixed_bytes = int(problem.sizes[fixed].sum()) + problem.resident_bytes
    barred = problem.barred & ~fixed
    for op in range(problem.num_forward, problem.num_ops):
        follows = problem.follows[problem.follows_at[op] : problem.follows_at[op + 1]]
        if np.all(follows < problem.num_forward):
            barred[problem.reads[problem.reads_at[op] : problem.reads_at[op + 1]]] = 0
    return Moment(problem.num_forward, before, ~before, fixed, barred, fixed_bytes)


@compiled
def _related(problem: Problem, op: int) -> tuple[BoolArray, BoolArray]:
    """Return the ops surely before and surely after the first run of `op`."""
    before = np.zeros(problem.num_ops, dtype=np.bool_)
    after = np.zeros(problem.num_ops, dtype=np.bool_)
    if op >= problem.num_forward:
        before[: problem.num_forward] = True
    else:
        after[problem.num_forward :] = True
    before[op] = after[op] = True
    for later in range(op, -1, -1):
        if before[later]:
            for at in range(problem.follows_at[later], problem.follows_at[later + 1]):
                before[problem.follows[at]] = True
    for later in range(op + 1, problem.num_ops):
        for at in range(problem.follows_at[later], problem.follows_at[later + 1]):
            after[later] |= after[problem.follows[at]]
    before[op] = after[op] = False
    return before, after


@dataclass(slots=True)
class Cut:
    """The network of one moment; each solve is one maximum flow over its edges."""

    problem: Problem
    at: Moment
    unit: int = field(init=False)
    """Capacity of one nanosecond."""
    work: int = field(init=False, default=0)
    """Arcs of all flows so far."""
    lines: dict[tuple[int, int], None] = field(init=False, default_factory=dict)
    """Added nanoseconds and held bytes of every choice so far, in order.

    None of them depends on a budget, so what one budget found serves the next.
    """
    _least: tuple[int, Choice] | None = field(init=False, default=None, repr=False)
    _unpriced: tuple[int, Choice] | None = field(init=False, default=None, repr=False)
    _flow: max_flow.SimpleMaxFlow = field(init=False, repr=False)
    _run_ops: IntArray = field(init=False, repr=False)
    _run_arcs: IntArray = field(init=False, repr=False)
    _hold_values: IntArray = field(init=False, repr=False)
    _hold_arcs: IntArray = field(init=False, repr=False)
    _limit: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the network, with no capacity yet on what a choice costs."""
        problem, at = self.problem, self.at
        total = int(problem.durations.sum())
        self.unit = 16 if total < 2 ** (_FLOW_BITS - 16) else 1
        self._limit = (1 << _FLOW_BITS) // (problem.num_values + problem.num_ops + 1)
        self._flow = max_flow.SimpleMaxFlow()
        makers = problem.producers
        given = makers < 0
        made_after = ~given & at.after[makers]
        free = ~at.fixed & ~made_after
        self._hold_values = np.flatnonzero(free & ~at.barred)
        self._run_ops = np.flatnonzero(at.before & ~problem.pinned)
        run = np.arange(problem.num_ops) + _FIRST
        # A pinned op that has run never runs again: its node is the source itself.
        run[at.before & problem.pinned] = _SOURCE
        have = np.arange(problem.num_values) + _FIRST + problem.num_ops
        self._hold_arcs = self._add(
            np.where(given, _SOURCE, run[makers])[self._hold_values],
            have[self._hold_values],
            0,
        )
        self._run_arcs = self._add(_SOURCE, run[self._run_ops], 0)
        always = 1 << (_FLOW_BITS + 1)
        again = np.flatnonzero(free & at.barred)
        self._add(run[makers][again], have[again], always)
        readers = np.repeat(np.arange(problem.num_ops), np.diff(problem.reads_at))
        matters = ~at.fixed[problem.reads] & ~made_after[problem.reads]
        matters &= readers != at.op
        late = matters & at.after[readers]
        needed = np.zeros(problem.num_values, dtype=np.bool_)
        needed[problem.reads[late]] = True
        needed |= problem.is_output & ~at.fixed & ~made_after
        self._add(have[needed], _SINK, always)
        early = matters & ~at.after[readers] & (run[readers] != _SOURCE)
        self._add(have[problem.reads[early]], run[readers[early]], always)

    def _add(self, tails: IntArray | int, heads: IntArray | int, size: int) -> IntArray:
        tails, heads = np.broadcast_arrays(tails, heads)
        sizes = np.full(len(tails), size, dtype=np.int64)
        arcs = self._flow.add_arcs_with_capacity(
            tails.astype(np.int32), heads.astype(np.int32), sizes
        )
        return np.asarray(arcs)

    def least_bytes(self) -> tuple[int, Choice]:
        """Return the fewest bytes this moment can hold, whatever is recomputed."""
        if self._least is None:
            self._charge(self.problem.sizes[self._hold_values], 0)
            least = self._solve() + self.at.fixed_bytes
            self._least = least, self._choice()
        return self._least

    def unpriced(self) -> tuple[int, Choice]:
        """Return the flow and the choice where bytes cost nothing."""
        if self._unpriced is None:
            self._unpriced = self.priced(FREE_OF_CHARGE)
        return self._unpriced

    def most_bytes(self) -> Choice:
        """Return the choice that recomputes nothing but what rules ask for."""
        return self.unpriced()[1]

    def priced(self, price: Price) -> tuple[int, Choice]:
        """Return the flow at a price per byte, and a choice of that cost."""
        sizes = self.problem.sizes[self._hold_values]
        self._charge(_floor_product(sizes, price, self._limit), self.unit)
        return self._solve(), self._choice()

    def bound_at(self, price: Price, flow: int, budget: int) -> int:
        """Return the bound on added nanoseconds that a flow at a price proves."""
        room = budget - self.at.fixed_bytes
        scaled = (flow << price.shift) - price.mantissa * room
        return -(-scaled // (self.unit << price.shift))

    def _charge(self, hold: IntArray, per_ns: int) -> None:
        run = np.minimum(self.problem.durations[self._run_ops], self._limit // 16)
        if len(self._hold_arcs):
            self._flow.set_arcs_capacity(self._hold_arcs, hold)
        if len(self._run_arcs):
            self._flow.set_arcs_capacity(self._run_arcs, run * per_ns)

    def _solve(self) -> int:
        self.work += self._flow.num_arcs()
        if self._flow.num_arcs() == 0:
            return 0
        status = self._flow.solve(_SOURCE, _SINK)
        if status != self._flow.OPTIMAL:
            msg = f"the maximum flow at op {self.at.op} ended with {status}"
            raise InternalError(msg)
        return int(self._flow.optimal_flow())

    def _choice(self) -> Choice:
        problem = self.problem
        far = np.zeros(_FIRST + problem.num_ops + problem.num_values, dtype=np.bool_)
        if self._flow.num_arcs():
            # The smallest sink side: it holds and runs nothing that no op needs.
            far[self._flow.get_sink_side_min_cut()] = True
        runs = far[_FIRST : _FIRST + problem.num_ops]
        again = runs & self.at.before
        have = far[_FIRST + problem.num_ops :]
        values = self._hold_values
        made = (problem.producers[values] >= 0) & runs[problem.producers[values]]
        held = np.zeros(problem.num_values, dtype=np.bool_)
        held[values[have[values] & ~made]] = True
        choice = Choice(
            held=held,
            again=again,
            held_bytes=int(problem.sizes[held].sum()) + self.at.fixed_bytes,
            added_ns=int(problem.durations[again].sum()),
        )
        self.lines[choice.added_ns, choice.held_bytes] = None
        return choice


def _floor_product(sizes: IntArray, price: Price, limit: int) -> IntArray:
    """Return floor(price * size), at most `limit`, without overflow or rounding.

    Sizes are split in two halves of bits, whose products with a mantissa of up to 21
    bits fit 64; the rare case that does not is left to Python's integers.
    """
    mantissa, shift = price
    high, low = sizes >> _HALF_BITS, sizes & ((1 << _HALF_BITS) - 1)
    spare = max(_HALF_BITS - shift, 0)
    widest = int(high.max(initial=0)).bit_length() + mantissa.bit_length() + spare
    if widest > _FLOW_BITS or mantissa.bit_length() > _MANTISSA_BITS + 1:
        exact = (min((mantissa * int(size)) >> shift, limit) for size in sizes)
        return np.fromiter(exact, dtype=np.int64)
    if spare:
        product = (mantissa * high << spare) + (mantissa * low >> shift)
    else:
        product = mantissa * high + (mantissa * low >> _HALF_BITS)
        product >>= min(shift - _HALF_BITS, 62)
    return np.minimum(product, limit)
