"""Checkmate's integer program: the exact reference for the given order.

Jain, Jain, Nrusimha, Gholami, Abbeel, Keutzer, Stoica, Gonzalez: "Checkmate: Breaking
the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020, arXiv:1910.02653.
The step is cut into stages; in stage `t` op `t` runs for the first time, after any
earlier ops that run again in it, in order. Binary variables say which run and which
values are held when a stage begins, others which go after which run:

* `runs`: op t runs in stage t; an op runs only where each value it reads is held when
  the stage begins or is made in it;
* `carry`: a value held when a stage begins was held or made in the stage before;
* `freed`: after a run that reads it (or makes it, if none reads it), where no later op
  of the stage reads it and the next stage does not hold it;
* `memory`: what is held while each op runs, its workspace included, fits the budget.

Beyond the paper a last stage without an op of its own may make outputs again, and
values are held one by one where an op makes several. O(n^2) variables for n ops, and as
many for each edge. Solved by HiGHS through OR-Tools.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

import numpy as np
from ortools.math_opt.python import mathopt  # type: ignore[import-untyped]

from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem
from encamp.planner.replay_fast import drop_dead

from .method import Limits
from .quiet import stdout_to_stderr
from .segments import row

MOST_OPS = 100
"""The largest graph for which the program is a matter of minutes."""
_SCALE = 1000.0
"""The budget, and the duration of the step, in the units that the solver sees."""


class Stagewise(NamedTuple):
    """What a solve found: a schedule, None without one, and whether that is proved."""

    steps: IntArray | None
    complete: bool
    """The schedule is the shortest of its kind, or there is none."""


def stagewise(problem: Problem, limits: Limits) -> Iterator[IntArray]:
    """Yield the best schedule found within the time, if there is one."""
    found = solve_stages(problem, limits).steps
    if found is not None:
        yield found


def solve_stages(problem: Problem, limits: Limits) -> Stagewise:
    """Solve the program of a problem under a budget, built within the same time."""
    started = time.monotonic()
    program = _Program(problem, limits.budget_bytes)
    left = max(limits.seconds - (time.monotonic() - started), 0.0)
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=left), relative_gap_tolerance=0.0
    )
    with stdout_to_stderr():
        result = mathopt.solve(
            program.model, mathopt.SolverType.HIGHS, params=parameters
        )
    reason = result.termination.reason
    complete = reason in (
        mathopt.TerminationReason.OPTIMAL,
        mathopt.TerminationReason.INFEASIBLE,
    )
    if not result.has_primal_feasible_solution():
        return Stagewise(None, complete)
    return Stagewise(program.schedule(result.variable_values()), complete)


@dataclass(slots=True)
class _Program:
    """The program of one problem, built stage by stage."""

    problem: Problem
    budget: int
    model: mathopt.Model = field(init=False, repr=False)
    _runs: dict[tuple[int, int], mathopt.Variable] = field(
        default_factory=dict, repr=False
    )
    _held: dict[tuple[int, int], mathopt.Variable] = field(
        default_factory=dict, repr=False
    )
    _reads: list[list[int]] = field(init=False, repr=False)
    _makes: list[list[int]] = field(init=False, repr=False)
    _readers: list[list[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the program."""
        problem = self.problem
        ops = range(problem.num_ops)
        self._reads = [row(problem.reads_at, problem.reads, op) for op in ops]
        self._makes = [row(problem.makes_at, problem.makes, op) for op in ops]
        self._readers = [[] for _ in range(problem.num_values)]
        for op in ops:
            for value in self._reads[op]:
                self._readers[value].append(op)
        self.model = mathopt.Model()
        for stage in range(problem.num_ops + 1):
            self._add_variables(stage)
        for stage in range(problem.num_ops + 1):
            self._carry(stage)
            self._run(stage)
            self._memory(stage)
        self._minimize()

    def schedule(self, values: dict[mathopt.Variable, float]) -> IntArray:
        """Return the steps of a solution, stage by stage."""
        stages = range(self.problem.num_ops + 1)
        steps = [
            op
            for stage in stages
            for op in stages[: stage + 1]
            if (stage, op) in self._runs and values[self._runs[stage, op]] > 0.5
        ]
        return drop_dead(self.problem, np.array(steps, dtype=np.int64))

    def _add_variables(self, stage: int) -> None:
        """Add what may run in a stage, and what may be held when it begins."""
        problem, model = self.problem, self.model
        for op in range(min(stage + 1, problem.num_ops)):
            if op == stage or not problem.pinned[op]:
                least = 1.0 if op == stage else 0.0
                self._runs[stage, op] = model.add_variable(
                    lb=least, ub=1.0, is_integer=True
                )
        for value, maker in enumerate(problem.producers.tolist()):
            if maker < stage:
                least = 1.0 if self._is_handed(value, stage) else 0.0
                least = 1.0 if stage == 0 else least
                self._held[stage, value] = model.add_variable(
                    lb=least, ub=1.0, is_integer=True
                )

    def _is_handed(self, value: int, stage: int) -> bool:
        """Return whether a stage begins after the forward handed `value` over."""
        early = self.problem.producers[value] < self.problem.num_forward
        after = stage > self.problem.num_forward
        return bool(self.problem.is_output[value] and early and after)

    def _supply(self, stage: int, value: int) -> mathopt.LinearExpression:
        """Return how often a stage has a value: from its start, or by making it."""
        ways = (
            self._held.get((stage, value)),
            self._runs.get((stage, int(self.problem.producers[value]))),
        )
        return mathopt.LinearSum(way for way in ways if way is not None)

    def _next(self, stage: int, value: int) -> mathopt.Variable | float:
        """Return whether a value is held when a stage ends."""
        if stage == self.problem.num_ops:
            return float(self.problem.is_output[value])
        return self._held[stage + 1, value]

    def _carry(self, stage: int) -> None:
        """Post that what a stage leaves was there or made, and never both."""
        for value, maker in enumerate(self.problem.producers.tolist()):
            if maker > stage or maker >= self.problem.num_ops:
                continue
            supply = self._supply(stage, value)
            self.model.add_linear_constraint(self._next(stage, value) <= supply)
            self.model.add_linear_constraint(supply <= 1.0)

    def _run(self, stage: int) -> None:
        """Post that an op runs only where all it reads is supplied."""
        for op in range(min(stage + 1, self.problem.num_ops)):
            if (stage, op) in self._runs:
                for value in self._reads[op]:
                    self.model.add_linear_constraint(
                        self._runs[stage, op] <= self._supply(stage, value)
                    )

    def _memory(self, stage: int) -> None:
        """Post that what is held at each run of a stage fits: a running sum."""
        problem = self.problem
        unit = _SCALE / max(self.budget, 1)
        sizes = (problem.sizes * unit).tolist()
        terms = [
            sizes[value] * held
            for (begins, value), held in self._held.items()
            if begins == stage
        ]
        before = self.model.add_variable(lb=0.0)
        base = problem.resident_bytes * unit
        self.model.add_linear_constraint(before == base + mathopt.LinearSum(terms))
        for op in range(min(stage + 1, problem.num_ops)):
            if (stage, op) not in self._runs:
                continue
            run = self._runs[stage, op]
            during = self.model.add_variable(lb=0.0)
            made = sum(sizes[value] for value in self._makes[op])
            self.model.add_linear_constraint(during == before + made * run)
            workspace = float(problem.workspaces[op]) * unit
            limit = self.budget * unit
            self.model.add_linear_constraint(during + workspace * run <= limit)
            before = self.model.add_variable(lb=0.0)
            freed = mathopt.LinearSum(self._freed(stage, op, sizes))
            self.model.add_linear_constraint(before == during - freed)

    def _freed(
        self, stage: int, op: int, sizes: list[float]
    ) -> Iterator[mathopt.LinearExpression]:
        """Yield the bytes that go after a run, one term for each value it touches."""
        for value in (*self._reads[op], *self._makes[op]):
            following = self._next(stage, value)
            later = (
                self._runs[stage, reader]
                for reader in self._readers[value]
                if reader > op and (stage, reader) in self._runs
            )
            freed = self.model.add_variable(lb=0.0, ub=1.0)
            self.model.add_linear_constraint(freed <= self._runs[stage, op])
            for hazard in (following, *later):
                self.model.add_linear_constraint(freed <= 1.0 - hazard)
            yield sizes[value] * freed

    def _minimize(self) -> None:
        unit = _SCALE / max(int(self.problem.durations.sum()), 1)
        self.model.minimize(
            mathopt.LinearSum(
                float(self.problem.durations[op]) * unit * run
                for (stage, op), run in self._runs.items()
                if op < stage
            )
        )
