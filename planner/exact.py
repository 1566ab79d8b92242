"""Solving an integer program of moments with CP-SAT."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from ortools.sat.python import cp_model

from encamp.errors import InternalError

from .jit import IntArray
from .program import ALWAYS, Program

_EXACT_BITS = 50
"""Sums below 2**50 are exact in the floating-point bound that CP-SAT reports."""
_LOOK_S = 0.05
"""Seconds between two looks at whether a solve is to stop."""


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


def solve_exactly(
    program: Program, *, below_ns: int | None, work: float, stop: Callable[[], bool]
) -> Answer:
    """Solve for a solution that adds less than `below_ns`.

    Deterministic while `work` (CP-SAT's deterministic time) is what ends it; it also
    ends soon after `stop` says so. Without a solution below the limit, the limit
    itself is proved.
    """
    model = _Model(program)
    model.minimize(below_ns)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = work
    # Interrupts are the caller's: CP-SAT would take them and tell nobody.
    solver.parameters.catch_sigint_signal = False
    _run(solver, model.model, stop)
    return model.answer(solver, below_ns)


class _Model:
    """An integer program in CP-SAT's terms."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.model = cp_model.CpModel()
        self._time_unit = _unit(int(program.problem.durations.sum()))
        self._chosen = [
            self.model.new_bool_var("") for _ in range(program.num_variables)
        ]
        for unless, ways in program.clauses:
            literals: list[cp_model.BoolVarT] = [self._chosen[way] for way in ways]
            if unless != ALWAYS:
                literals.append(self._chosen[unless].negated())
            self.model.add_bool_or(literals)
        self._fit()

    def _fit(self) -> None:
        unit = _divisor(self.program.problem.sizes)
        for variables, sizes, room in self.program.capacities:
            if room < sum(sizes):
                chosen = [self._chosen[variable] for variable in variables]
                units = [size // unit for size in sizes]
                held = cp_model.LinearExpr.weighted_sum(chosen, units)
                self.model.add(held <= room // unit)

    def minimize(self, below_ns: int | None) -> None:
        terms = [(self._chosen[one], ns) for one, ns in self.program.costs]
        cost = cp_model.LinearExpr.weighted_sum(
            [chosen for chosen, _ in terms], [ns // self._time_unit for _, ns in terms]
        )
        if below_ns is not None:
            self.model.add(cost <= -(-below_ns // self._time_unit) - 1)
        self.model.minimize(cost)

    def answer(self, solver: cp_model.CpSolver, below: int | None) -> Answer:
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
            frozenset(
                op for op, one in stage.again.items() if solver.value(self._chosen[one])
            )
            for stage in self.program.stages
        )
        return Answer(added, status == cp_model.OPTIMAL, work, runs)


def _run(
    solver: cp_model.CpSolver, model: cp_model.CpModel, stop: Callable[[], bool]
) -> None:
    """Solve on a thread of its own, so that this one can look and be interrupted."""
    running = Thread(target=solver.solve, args=(model,), daemon=True)
    running.start()
    while running.is_alive():
        if stop():
            solver.stop_search()
        running.join(_LOOK_S)


def _unit(total: int) -> int:
    """Return the power of two that brings a total under the exact range."""
    return int(1 << max(0, total.bit_length() - _EXACT_BITS))


def _divisor(sizes: IntArray) -> int:
    """Return a unit for sizes; where it divides them, rounding down changes nothing."""
    common = math.gcd(*sizes.tolist()) or 1
    return common * _unit(int(sizes.sum()) // common)
