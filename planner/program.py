"""The integer program over one or several moments of a schedule.

At each moment (the first run of an op) a set of values is held within the budget; in
each stage, from one moment to the next or to the end, ops run again. One rule a
function, all of them clauses:

* `supply`: a value needed in a stage is held at its start or made again in it;
* `rerun`: an op that runs again has each of its inputs supplied;
* `carry`: what is held at a moment was supplied in the stage before;
* `capacity`: what is held at a moment fits the budget.

Every schedule whose first runs are in the moments' order satisfies them, so the least
added duration is a lower bound. It looks at the moments only: what the solution
turns into may exceed the budget in between, where a further moment can be added.
With one moment the bound holds for every order, with several for the given one.

The same rules hold from one moment to any later one, for an op that runs again in any
of the stages between. Such wider windows decide nothing new, but the linear relaxation
is far weaker without them: it would hold a tenth of an input, run an op by a tenth in
each of ten stages, and count that as the whole op run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from encamp.plan import Order

from .cut import Moment, moment
from .jit import BoolArray, IntArray
from .problem import Problem
from .replay_fast import drop_dead

ALWAYS = -1
"""In place of a variable: a clause that nothing excuses."""


class Clause(NamedTuple):
    """One of the `ways` is chosen, unless the variable `unless` is not."""

    unless: int
    ways: tuple[int, ...]


class Capacity(NamedTuple):
    """The chosen ones of some variables have no more than `room` bytes together."""

    variables: tuple[int, ...]
    sizes: tuple[int, ...]
    room: int


@dataclass(frozen=True, slots=True)
class Window:
    """From one moment to a later one, or to the end: what runs again in it."""

    first: int
    """Position of the moment at which it begins."""
    until: int
    """Position of the moment at which it ends, the number of moments for the end."""
    at: Moment
    during: BoolArray
    """Ops whose first run is in the window, that of the last moment among them."""
    again: dict[int, int] = field(default_factory=dict)
    """The variable of each op that may run again."""

    @property
    def is_stage(self) -> bool:
        """Return whether no moment lies within."""
        return self.until == self.first + 1


class Program:
    """The integer program of a problem at the first runs of some ops.

    Its variables are numbered; each is 0 or 1. Its size is that of the problem for
    every two moments.
    """

    def __init__(self, problem: Problem, ops: Sequence[int], budget: int) -> None:
        """Build the program; `ops` are the moments, in order."""
        one = len(ops) == 1 and not problem.barred.any()
        self.order = Order.FREE if one else Order.GIVEN
        self.problem = problem
        self.ops = tuple(ops)
        self.num_variables = 0
        self.clauses: list[Clause] = []
        self.capacities: list[Capacity] = []
        """One for each moment, in order."""
        self.stages: list[Window] = []
        self._moments = [moment(problem, op, self.order) for op in ops]
        self._held: list[dict[int, int]] = [{} for _ in ops]
        self._build(budget)

    @property
    def costs(self) -> Iterator[tuple[int, int]]:
        """Yield the variables that cost something, with the nanoseconds they add."""
        for stage in self.stages:
            for op, chosen in stage.again.items():
                if stage.at.before[op]:
                    yield chosen, int(self.problem.durations[op])

    def _build(self, budget: int) -> None:
        wide: list[Window] = []
        for position in reversed(range(len(self.ops))):
            for until in range(position + 1, len(self.ops) + 1):
                window = self._window(position, until)
                self._demand(window)
                (self.stages if window.is_stage else wide).append(window)
            self.capacities.append(self._capacity(position, budget))
        self.stages.reverse()
        self.capacities.reverse()
        for window in wide:
            self._in_stages(window)

    def _window(self, first: int, until: int) -> Window:
        following = self._moments[until] if until < len(self._moments) else None
        at = self._moments[first]
        return Window(first, until, at, _during(at, following))

    def _demand(self, window: Window) -> None:
        """Post what the ops of a window and the moment at its end ask of it."""
        pending: list[int] = []
        for value in sorted(self._read_in(window)):
            self._supply(window, value, ALWAYS, pending)
        if window.until < len(self._moments):
            for value, held in self._held[window.until].items():
                self._supply(window, value, held, pending)
        while pending:
            op = pending.pop()
            for value in self._reads(op):
                self._supply(window, value, window.again[op], pending)

    def _read_in(self, window: Window) -> set[int]:
        """Return what the ops of a window read, and what is live at its end."""
        runs = np.flatnonzero(window.during).tolist()
        read = {value for op in runs for value in self._reads(op)}
        if window.until == len(self._moments):
            return read | {*np.flatnonzero(self.problem.is_output).tolist()}
        end = self._moments[window.until]
        fixed = end.fixed & (self.problem.producers != end.op)
        return read | {*np.flatnonzero(fixed).tolist()}

    def _supply(
        self, window: Window, value: int, unless: int, pending: list[int]
    ) -> None:
        """Post that `value` is held at the start or made in the window, `unless`..."""
        at, maker = window.at, int(self.problem.producers[value])
        made_first = maker >= 0 and window.during[maker]
        if at.fixed[value] or made_first:
            return
        ways = [] if at.barred[value] else [self._holds(window.first, value)]
        if maker >= 0 and not (self.problem.pinned[maker] and at.before[maker]):
            if maker not in window.again:
                window.again[maker] = self._variable()
                pending.append(maker)
            ways.append(window.again[maker])
        self.clauses.append(Clause(unless, tuple(ways)))

    def _holds(self, position: int, value: int) -> int:
        held = self._held[position]
        if value not in held:
            held[value] = self._variable()
        return held[value]

    def _variable(self) -> int:
        self.num_variables += 1
        return self.num_variables - 1

    def _in_stages(self, wide: Window) -> None:
        """Post that what runs again in a window does so in one of its stages."""
        stages = self.stages[wide.first : wide.until]
        for op, chosen in wide.again.items():
            runs = tuple(stage.again[op] for stage in stages if op in stage.again)
            self.clauses.append(Clause(chosen, runs))

    def _capacity(self, position: int, budget: int) -> Capacity:
        """Return that what is held at a moment fits the budget."""
        held = self._held[position]
        sizes = tuple(self.problem.sizes[list(held)].tolist())
        room = budget - self._moments[position].fixed_bytes
        return Capacity(tuple(held.values()), sizes, room)

    def _reads(self, op: int) -> list[int]:
        problem = self.problem
        found: list[int] = problem.reads[
            problem.reads_at[op] : problem.reads_at[op + 1]
        ].tolist()
        return found


def _during(at: Moment, following: Moment | None) -> BoolArray:
    if following is None:
        return at.after
    during = at.after & following.before
    during[following.op] = True
    return during


def expand(program: Program, runs: Sequence[frozenset[int]]) -> IntArray:
    """Return the schedule in which ops run again as said for each stage.

    An op that runs again does so just before the first op of its stage that reads
    it, else when the stage ends.
    """
    problem, ops = program.problem, program.ops
    steps = list(range(ops[0] + 1))
    ends = [*ops[1:], problem.num_ops - 1]
    for first, end, again in zip(ops, ends, runs, strict=True):
        waiting = {op for op in again if op <= first}
        for op in range(first + 1, end + 1):
            steps += _pull(problem, op, waiting)
            steps.append(op)
        steps += sorted(waiting)
    return drop_dead(problem, np.array(steps, dtype=np.int64))


def _pull(problem: Problem, op: int, waiting: set[int]) -> list[int]:
    """Take out the waiting ops that `op` needs, directly or through each other."""
    found: set[int] = set()
    stack = [op]
    while stack:
        reader = stack.pop()
        reads = problem.reads[problem.reads_at[reader] : problem.reads_at[reader + 1]]
        makers: list[int] = problem.producers[reads].tolist()
        fresh = {maker for maker in makers if maker in waiting} - found
        found |= fresh
        stack += fresh
    waiting -= found
    return sorted(found)
