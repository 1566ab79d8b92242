"""The linear relaxation of an integer program of moments: a bound, prices, a hint.

Cheap beside the program itself, so it can look at more moments at once; the price of
a moment says whether it matters. What is claimed of it does not rest on the solver's
arithmetic: any prices that are not negative prove a bound by weak duality (Neumaier
and Shcherbina: Safe bounds in linear and mixed-integer linear programming, 2004), and
theirs is computed in integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt
from ortools.math_opt import model_pb2  # type: ignore[import-untyped]
from ortools.math_opt.python import mathopt  # type: ignore[import-untyped]

from .program import ALWAYS, Program

FloatArray = npt.NDArray[np.float64]

_PRICE_BITS = 20
"""Bits of a nanosecond that prices are rounded down to."""
_COSTS_SUM = 1000.0
"""What the durations of all ops add up to in the solver's own numbers."""
_PRICED = 1e-6
"""A price in the solver's numbers that is more than its rounding."""
_WHOLE, _HALF, _MOSTLY = 0.999, 0.5, 0.35
"""Shares of a run: as good as one, one in the end, and one if it is costly."""
_AT_ONCE = 10
"""One in so many of the fractional choices is made at once."""
_MOST_DIVES = 6
_SMALL = 0.001
"""Share of the unplanned step that fractional choices may cost in the end."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """What a linear relaxation proved and led to."""

    added_ns: int
    """No schedule in the program's order adds less. Proven in integers."""
    priced: tuple[int, ...]
    """The moments whose bytes have a price, the dearest first."""
    runs: tuple[frozenset[int], ...]
    """The ops that run again in each stage, once the choices are made whole."""
    iterations: int


@dataclass(slots=True)
class Limits:
    """When to give up: what is left in iterations and in seconds, and when told to."""

    iterations: int
    seconds: Callable[[], float]
    stop: Callable[[], bool]


def relax(program: Program, limits: Limits) -> Relaxation | None:
    """Solve the relaxation with HiGHS; None if it does not end within the limits.

    Then dive: make the dearest of the fractional choices, solve again, and so on
    until what is left fractional costs next to nothing.
    """
    model = _model(program)
    result = _solve(model, limits)
    if result is None:
        return None
    duals = np.array(list(result.dual_values().values()))
    prices = np.maximum(duals[len(program.clauses) :], 0.0)
    ranked = np.argsort(-prices, kind="stable")
    before = limits.iterations
    chosen = _dive(program, model, _values(result), limits) >= _HALF
    runs = (
        frozenset(op for op, one in stage.again.items() if chosen[one])
        for stage in program.stages
    )
    return Relaxation(
        added_ns=proven(program, duals),
        priced=tuple(program.ops[i] for i in ranked if prices[i] > _PRICED),
        runs=tuple(runs),
        iterations=before - limits.iterations,
    )


def _dive(
    program: Program, model: mathopt.Model, values: FloatArray, limits: Limits
) -> FloatArray:
    """Return the values of the variables after making the costly choices whole."""
    priced = [*program.costs]
    variables = list(model.variables())
    one = np.array([variable for variable, _ in priced], dtype=np.int64)
    costs = np.array([ns for _, ns in priced], dtype=np.float64)
    small = _SMALL * float(program.problem.durations.sum())
    for _ in range(_MOST_DIVES):
        shares = values[one]
        weights = np.where((shares > 1 - _WHOLE) & (shares < _WHOLE), shares * costs, 0)
        if weights.sum() <= small:
            break
        dearest = np.argsort(-weights, kind="stable")
        some = dearest[: 1 + np.count_nonzero(weights) // _AT_ONCE]
        made = shares >= _WHOLE
        made[some] |= shares[some] >= _MOSTLY
        made[some[0]] = True
        for variable in one[made]:
            variables[variable].lower_bound = 1.0
        result = _solve(model, limits)
        if result is None:
            break
        values = _values(result)
    return values


def _solve(model: mathopt.Model, limits: Limits) -> mathopt.SolveResult | None:
    """Return the optimum, None at a limit or if there is none.

    HiGHS cannot be interrupted, so what is asked between two solves comes too late
    by one at most.
    """
    if limits.stop():
        return None
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=max(0.0, limits.seconds())),
        iteration_limit=max(0, limits.iterations),
    )
    found = mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters)
    limits.iterations -= found.solve_stats.simplex_iterations
    optimal = found.termination.reason == mathopt.TerminationReason.OPTIMAL
    # Of a program without rows HiGHS returns no prices.
    return found if optimal and found.has_dual_feasible_solution() else None


def _values(result: mathopt.SolveResult) -> FloatArray:
    return np.array(list(result.variable_values().values()))


def proven(program: Program, prices: FloatArray) -> int:
    """Return the added nanoseconds that prices prove, whatever they are.

    There is one for each row: the clauses, then the capacities. What the rows ask
    for, at their prices, less what the cheapest choice of each variable leaves of it,
    is a bound. It is exact, since the prices become integers first.
    """
    unit, room_unit = _cost_unit(program), _room_unit(program)
    shift = _PRICE_BITS + int(room_unit).bit_length()
    bound = 0
    left = [0] * program.num_variables
    for variable, ns in program.costs:
        left[variable] = ns << shift
    of_clauses, of_rooms = np.split(np.maximum(prices, 0.0), [len(program.clauses)])
    for (unless, ways), price in zip(program.clauses, of_clauses, strict=True):
        owed = int(price * unit * (1 << _PRICE_BITS)) << (shift - _PRICE_BITS)
        for way in ways:
            left[way] -= owed
        if unless == ALWAYS:
            bound += owed
        else:
            left[unless] += owed
    for (variables, sizes, room), price in zip(
        program.capacities, of_rooms, strict=True
    ):
        per_byte = int(price * unit / room_unit * (1 << shift))
        bound -= per_byte * room
        for variable, size in zip(variables, sizes, strict=True):
            left[variable] += per_byte * size
    bound += sum(min(0, rest) for rest in left)
    return max(0, -(-bound >> shift))


def _cost_unit(program: Program) -> float:
    """Return the nanoseconds that are one in the solver's numbers."""
    return max(1, int(program.problem.durations.sum())) / _COSTS_SUM


def _room_unit(program: Program) -> float:
    """Return the bytes that are one in the solver's numbers."""
    return float(max(1, *(capacity.room for capacity in program.capacities)))


def _model(program: Program) -> mathopt.Model:
    """Return the relaxation as a model: the rows are the clauses, then the rooms."""
    proto = model_pb2.ModelProto()
    count, rows = program.num_variables, len(program.clauses) + len(program.capacities)
    proto.variables.ids.extend(range(count))
    proto.variables.lower_bounds.extend([0.0] * count)
    proto.variables.upper_bounds.extend([1.0] * count)
    proto.variables.integers.extend([False] * count)
    unit = _cost_unit(program)
    costs = sorted(program.costs)
    proto.objective.linear_coefficients.ids.extend(one for one, _ in costs)
    proto.objective.linear_coefficients.values.extend(ns / unit for _, ns in costs)
    proto.linear_constraints.ids.extend(range(rows))
    proto.linear_constraints.lower_bounds.extend(_least(program))
    proto.linear_constraints.upper_bounds.extend([float("inf")] * rows)
    matrix = proto.linear_constraint_matrix
    for row, entries in enumerate(_rows(program)):
        matrix.row_ids.extend([row] * len(entries))
        matrix.column_ids.extend(variable for variable, _ in entries)
        matrix.coefficients.extend(factor for _, factor in entries)
    return mathopt.Model.from_model_proto(proto)


def _least(program: Program) -> list[float]:
    unit = _room_unit(program)
    clauses = [float(unless == ALWAYS) for unless, _ in program.clauses]
    return clauses + [-capacity.room / unit for capacity in program.capacities]


def _rows(program: Program) -> Sequence[list[tuple[int, float]]]:
    """Return the factors of each row by variable, in order."""
    unit = _room_unit(program)
    rows = [
        sorted([*((way, 1.0) for way in ways), *_excuse(unless)])
        for unless, ways in program.clauses
    ]
    for variables, sizes, _ in program.capacities:
        entries = zip(variables, sizes, strict=True)
        rows.append(sorted((variable, -size / unit) for variable, size in entries))
    return rows


def _excuse(unless: int) -> list[tuple[int, float]]:
    return [] if unless == ALWAYS else [(unless, -1.0)]
