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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread

import numpy as np
from ortools.sat.python import cp_model

from encamp.errors import InternalError
from encamp.plan import Order

from .cut import Moment, moment
from .jit import BoolArray, IntArray
from .problem import Problem
from .replay_fast import drop_dead

_EXACT_BITS = 50
"""Sums below 2**50 are exact in the floating-point bound that CP-SAT reports."""
_LOOK_S = 0.05
"""Seconds between two looks at whether a solve is to stop."""


@dataclass(slots=True)
class Stage:
    """The decisions of one stage: what is held when it begins, what runs again."""

    at: Moment
    during: BoolArray
    """Ops whose first run is in this stage, the next moment's op among them."""
    held: dict[int, cp_model.IntVar] = field(default_factory=dict)
    again: dict[int, cp_model.IntVar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a solve proved and found.

    `added_ns` is the proven least added duration, None if no schedule fits; `runs`
    are the ops to run again in each stage of the best solution, empty without one.
    `work` is the deterministic time that CP-SAT spent.
    """

    added_ns: int | None
    complete: bool
    work: float = 0.0
    runs: tuple[frozenset[int], ...] = ()


class Program:
    """The integer program of a problem at the first runs of some ops."""

    def __init__(self, problem: Problem, ops: Sequence[int], budget: int) -> None:
        """Build the program; `ops` are the moments, in order."""
        self._problem = problem
        self._model = cp_model.CpModel()
        one = len(ops) == 1 and not problem.barred.any()
        self.order = Order.FREE if one else Order.GIVEN
        moments = [moment(problem, op, self.order) for op in ops]
        self.stages = [
            Stage(at, _during(at, following))
            for at, following in zip(moments, [*moments[1:], None], strict=True)
        ]
        self._time_unit = _unit(int(problem.durations.sum()))
        self._byte_unit = _divisor(problem.sizes)
        for position in reversed(range(len(ops))):
            self._demand(position)
            self._capacity(self.stages[position], budget)

    def solve(
        self, *, below_ns: int | None, work: float, stop: Callable[[], bool]
    ) -> Answer:
        """Solve for a solution that adds less than `below_ns`.

        Deterministic while `work` (CP-SAT's deterministic time) is what ends it; it
        also ends soon after `stop` says so. Without a solution below the limit, the
        limit itself is proved.
        """
        cost = self._cost()
        if below_ns is not None:
            self._model.add(cost <= -(-below_ns // self._time_unit) - 1)
        self._model.minimize(cost)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 2
        solver.parameters.max_deterministic_time = work
        # Interrupts are the caller's: CP-SAT would take them and tell nobody.
        solver.parameters.catch_sigint_signal = False
        _solve(solver, self._model, stop)
        return self._answer(solver, below_ns)

    def _answer(self, solver: cp_model.CpSolver, below: int | None) -> Answer:
        status, work = solver.response_proto.status, solver.deterministic_time
        if status == cp_model.INFEASIBLE:
            return Answer(below, complete=True, work=work)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            msg = f"CP-SAT ended with {solver.status_name(status)}"
            raise InternalError(msg)
        # An integer that CP-SAT reports as a float; the margin is for its last bits.
        reported = math.floor(max(solver.best_objective_bound, 0.0) + 1e-4)
        added = reported * self._time_unit
        if below is not None:
            added = min(added, below)
        if status == cp_model.UNKNOWN:
            return Answer(added, complete=False, work=work)
        runs = tuple(
            frozenset(op for op, chosen in stage.again.items() if solver.value(chosen))
            for stage in self.stages
        )
        return Answer(added, status == cp_model.OPTIMAL, work, runs)

    def _cost(self) -> cp_model.LinearExpr:
        terms = [
            (chosen, int(self._problem.durations[op]) // self._time_unit)
            for stage in self.stages
            for op, chosen in stage.again.items()
            if stage.at.before[op]
        ]
        variables = [chosen for chosen, _ in terms]
        return cp_model.LinearExpr.weighted_sum(variables, [ns for _, ns in terms])

    def _demand(self, position: int) -> None:
        """Post what the ops of a stage and the next moment ask of it."""
        stage = self.stages[position]
        pending: list[int] = []
        for runs in np.flatnonzero(stage.during).tolist():
            for value in self._reads(runs):
                self._supply(stage, value, (), pending)
        if position + 1 < len(self.stages):
            self._carry(stage, self.stages[position + 1], pending)
        else:
            for value in np.flatnonzero(self._problem.is_output).tolist():
                self._supply(stage, value, (), pending)
        while pending:
            op = pending.pop()
            unless = (stage.again[op].negated(),)
            for value in self._reads(op):
                self._supply(stage, value, unless, pending)

    def _carry(self, stage: Stage, following: Stage, pending: list[int]) -> None:
        for value in np.flatnonzero(following.at.fixed).tolist():
            if self._problem.producers[value] != following.at.op:
                self._supply(stage, value, (), pending)
        for value, held in following.held.items():
            self._supply(stage, value, (held.negated(),), pending)

    def _supply(
        self,
        stage: Stage,
        value: int,
        unless: tuple[cp_model.BoolVarT, ...],
        pending: list[int],
    ) -> None:
        """Post that `value` is held at the start or made in the stage, `unless`..."""
        maker = int(self._problem.producers[value])
        made_first = maker >= 0 and stage.during[maker]
        if stage.at.fixed[value] or made_first:
            return
        ways = [] if stage.at.barred[value] else [self._held(stage, value)]
        if maker >= 0 and not (self._problem.pinned[maker] and stage.at.before[maker]):
            if maker not in stage.again:
                stage.again[maker] = self._model.new_bool_var(f"again {maker}")
                pending.append(maker)
            ways.append(stage.again[maker])
        self._model.add_bool_or(*unless, *ways)

    def _held(self, stage: Stage, value: int) -> cp_model.IntVar:
        if value not in stage.held:
            stage.held[value] = self._model.new_bool_var(f"held {value}")
        return stage.held[value]

    def _capacity(self, stage: Stage, budget: int) -> None:
        """Post that what is held when a stage begins fits the budget."""
        sizes = [int(self._problem.sizes[v]) // self._byte_unit for v in stage.held]
        room = (budget - stage.at.fixed_bytes) // self._byte_unit
        held = cp_model.LinearExpr.weighted_sum(list(stage.held.values()), sizes)
        if room < sum(sizes):
            self._model.add(held <= room)

    def _reads(self, op: int) -> list[int]:
        problem = self._problem
        found: list[int] = problem.reads[
            problem.reads_at[op] : problem.reads_at[op + 1]
        ].tolist()
        return found


def _solve(
    solver: cp_model.CpSolver, model: cp_model.CpModel, stop: Callable[[], bool]
) -> None:
    """Solve on a thread of its own, so that this one can look and be interrupted."""
    running = Thread(target=solver.solve, args=(model,), daemon=True)
    running.start()
    while running.is_alive():
        if stop():
            solver.stop_search()
        running.join(_LOOK_S)


def _during(at: Moment, following: Moment | None) -> BoolArray:
    if following is None:
        return at.after
    during = at.after & following.before
    during[following.op] = True
    return during


def _unit(total: int) -> int:
    """Return the power of two that brings a total under the exact range."""
    return int(1 << max(0, total.bit_length() - _EXACT_BITS))


def _divisor(sizes: IntArray) -> int:
    """Return a unit for sizes; where it divides them, rounding down changes nothing."""
    common = math.gcd(*sizes.tolist()) or 1
    return common * _unit(int(sizes.sum()) // common)


def expand(problem: Problem, ops: Sequence[int], answer: Answer) -> IntArray:
    """Return the schedule of an answer of the program at `ops`.

    An op that runs again does so just before the first op of its stage that reads
    it, else when the stage ends.
    """
    steps = list(range(ops[0] + 1))
    ends = [*ops[1:], problem.num_ops - 1]
    for first, end, again in zip(ops, ends, answer.runs, strict=True):
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
