"""The state of one solve: the best plan, what is proved, and the time left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from encamp.plan import Order

from .clock import Clock
from .jit import IntArray, RandomState, random_state
from .options import Event, Options
from .problem import Problem
from .replay_fast import duration, first_runs, peak

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """No schedule of an order adds less than this; and by which method."""

    added_ns: int
    method: str


@dataclass(frozen=True, slots=True)
class Effort:
    """How much one solve tries, in terms of what a solve that stands alone tries."""

    rounds_per_op: float = 4.0
    """Rounds after which a repair gives up, for each op of the graph."""
    moments: int = 20
    """Most moments of an integer program."""
    work: float = 1.0
    """Share of the work of programs and local search."""


_WIDE_GAP = 0.005
"""Share of the unplanned step; most solves end with a gap far under it."""

FULL = Effort()


@dataclass(slots=True)
class Progress:
    """One solve under way: stages offer plans and proofs, and ask whether to go on."""

    problem: Problem
    budget: int
    options: Options
    clock: Clock
    listener: Listener | None = None
    effort: Effort = FULL
    best: IntArray | None = None
    duration_ns: int | None = None
    keeps_order: bool = True
    """Whether the first runs of the best plan are in the given order."""
    stages: list[str] = field(default_factory=list)
    proofs: dict[Order, Proof] = field(init=False)
    unplanned_ns: int = field(init=False)
    random: RandomState = field(init=False)

    def __post_init__(self) -> None:
        """Begin with what always holds: nothing less than every op once."""
        trivial = Proof(0, "every-op-once")
        self.proofs = {Order.FREE: trivial, Order.GIVEN: trivial}
        self.unplanned_ns = int(self.problem.durations.sum())
        self.random = random_state(self.options.seed)

    def begin(self, stage: str) -> None:
        """Enter a stage and report it."""
        if stage not in self.stages:
            self.stages.append(stage)
        self._report()

    def offer(self, steps: IntArray) -> bool:
        """Keep a schedule if it fits and is the shortest; return whether it is."""
        found = int(duration(self.problem, steps))
        better = self.duration_ns is None or found < self.duration_ns
        if not better or peak(self.problem, steps) > self.budget:
            return False
        self.best, self.duration_ns = steps, found
        self.keeps_order = bool(np.all(np.diff(first_runs(self.problem, steps)) > 0))
        self._report()
        return True

    def take(self, other: Progress) -> None:
        """Take the plan of a smaller budget over unless it is longer.

        Of two plans of one duration it is the one of the lower peak.
        """
        theirs, ours = other.duration_ns, self.duration_ns
        if theirs is not None and (ours is None or theirs <= ours):
            self.best, self.duration_ns = other.best, theirs
            self.keeps_order = other.keeps_order
            self._report()

    def prove(self, order: Order, added_ns: int, method: str) -> None:
        """Note a proof; one for every order also holds for the given one."""
        better = added_ns > self.strongest[1].added_ns
        for covered in (order, Order.GIVEN):
            if added_ns > self.proofs[covered].added_ns:
                self.proofs[covered] = Proof(added_ns, method)
        if better:
            self._report()

    @property
    def added_ns(self) -> int | None:
        """Return the duration the best plan adds to the unplanned step."""
        return (
            None if self.duration_ns is None else self.duration_ns - self.unplanned_ns
        )

    @property
    def strongest(self) -> tuple[Order, Proof]:
        """Return the best proof that covers the best plan's order.

        It is one for every order where that costs nothing, and where the plan has an
        order of its own: what holds for the given order says nothing of it.
        """
        free, given = self.proofs[Order.FREE], self.proofs[Order.GIVEN]
        if free.added_ns >= given.added_ns or not self.keeps_order:
            return Order.FREE, free
        return Order.GIVEN, given

    @property
    def target_ns(self) -> int:
        """Return the duration that closes the gap as far as the options ask."""
        proved = self.unplanned_ns + self.strongest[1].added_ns
        return proved + int(self.options.target_gap * self.unplanned_ns)

    @property
    def wide(self) -> bool:
        """Return whether the gap is so wide that more of the same is worth trying."""
        if self.duration_ns is None:
            return False
        excess = self.duration_ns - self.unplanned_ns - self.strongest[1].added_ns
        return excess > _WIDE_GAP * self.unplanned_ns

    @property
    def closed(self) -> bool:
        """Return whether the best plan is proved optimal."""
        return self.added_ns == self.strongest[1].added_ns

    @property
    def done(self) -> bool:
        """Return whether the gap is closed, or the time is over."""
        closed = self.duration_ns is not None and self.duration_ns <= self.target_ns
        return closed or self.clock.is_over()

    def _report(self) -> None:
        if self.listener is not None and self.stages:
            event = Event(
                stage=self.stages[-1],
                seconds=self.clock.elapsed,
                duration_ns=self.duration_ns,
                lower_bound_ns=self.unplanned_ns + self.strongest[1].added_ns,
                unplanned_ns=self.unplanned_ns,
                budget_bytes=self.budget,
            )
            self.listener(event)
