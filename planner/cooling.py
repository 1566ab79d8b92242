"""Simulated annealing of a schedule on slots: Metropolis' rule, and two controls.

The energy of a schedule is its duration, in those of a mean op, and its excess over the
budget at a price. The *temperature* falls geometrically, from where a step longer by
half an op is nothing to where a hundredth of one is much. The *price* is controlled:
at first so that the mean excess follows a target that falls to nothing, then so that
the share of schedules within the budget rises. Schedules over the budget are the way
from one that fits to another; counting all their excess, not only the peak's, tells
which are nearer even where many steps exceed it alike.

Simulated annealing: Kirkpatrick, Gelatt, Vecchi, Science 220, 1983. For this problem
with reordering: "FastSA" in the findings beside the public graphs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import IntArray, RandomState, below, compiled_bare, uniform
from .journal import Journal, journal, take_back
from .slot_moves import move
from .slots import DURATION, EXCESS, SIZE, TIME, Board, lay_out, read_off

FloatArray = npt.NDArray[np.float64]

_PERIODS, _LONGEST_PERIOD = 256, 4096
"""A course has so many periods, or more so that none is longer than so many moves."""
_RESPACE = 48
"""Periods after which new gaps are made."""
_SEARCHING = 0.65
"""Share of the moves after which the excess should be nothing."""
_STEP, _SMALL_STEP = 1.04, 1.02
_FIRST_FITTING, _LAST_FITTING = 0.1, 0.7
_CROWDED = 0.8
"""Share of the slots in use at which new gaps would be none."""
_STEPS_A_PRICE = 20
"""A price of 1 sets an excess of a mean value over one in so many steps at one op."""


class Cooling(NamedTuple):
    """The course of one annealing."""

    moves: int
    hot: float
    """First temperature, in durations of a mean op."""
    cold: float
    price: float = 1.0
    """First price of the excess; 1 is low."""
    target: float = 5e-3
    """First mean excess to aim at, as a share of the budget in as many steps as ops."""
    cascades: float = 0.15
    """Share of moves that are cascades."""


class State(NamedTuple):
    """An annealing under way. All of it is changed in place."""

    board: Board
    journal: Journal
    random: RandomState
    best: IntArray
    """The shortest schedule that fits, in its first places."""
    found: IntArray
    """Its number of steps, and its duration; -1 and -1 without one."""
    price: FloatArray
    seen: FloatArray
    """Sum of the excess since the price was set, and how many schedules fitted."""
    move: IntArray
    """Moves done."""
    steps: IntArray
    gaps: IntArray
    """Scratch space."""


def begin(board: Board, steps: IntArray, cooling: Cooling, seed: RandomState) -> State:
    """Return an annealing that stands at a schedule."""
    lay_out(board, steps, len(steps), np.zeros(len(steps), dtype=np.int64))
    return State(
        board,
        journal(),
        seed,
        np.zeros(board.line.shape[1], dtype=np.int64),
        np.full(2, -1, dtype=np.int64),
        np.array([cooling.price]),
        np.zeros(2),
        np.zeros(1, dtype=np.int64),
        np.zeros(board.line.shape[1], dtype=np.int64),
        np.zeros(board.line.shape[1], dtype=np.int64),
    )


@compiled_bare
def anneal(state: State, cooling: Cooling, pause: int) -> None:
    """Go on until so many moves have been done in all."""
    board, rates = state.board, _rates(state.board)
    period = _period(cooling)
    temperature, energy = _temperature(state, cooling), _energy(state, rates)
    for at in range(state.move[0], min(pause, cooling.moves)):
        if at % period == 0 and at > 0:
            state.move[0] = at
            temperature = _temperature(state, cooling)
            _set_price(state, cooling)
            if at // period % _RESPACE == 0:
                _respace(state)
            energy = _energy(state, rates)
        move(board, state.journal, cooling.cascades, state.random)
        if state.journal.sizes[0] > 0:
            after = _energy(state, rates)
            if after <= energy or uniform(state.random) < math.exp(
                (energy - after) / temperature
            ):
                energy = after
                _keep_best(state)
            else:
                take_back(board, state.journal)
        state.seen[0] += board.totals[EXCESS]
        state.seen[1] += board.totals[EXCESS] == 0
    state.move[0] = min(pause, cooling.moves)


@compiled_bare
def _rates(board: Board) -> tuple[float, float]:
    """Return the energy of a nanosecond, and of a unit of excess at a price of 1."""
    durations, sizes = board.ops[:, TIME].sum(), board.values[:, SIZE].sum()
    mean = sizes / len(board.values) * max(1.0, board.num_ops / _STEPS_A_PRICE)
    return board.num_ops / max(1, durations), 1.0 / max(1.0, mean)


@compiled_bare
def _energy(state: State, rates: tuple[float, float]) -> float:
    totals = state.board.totals
    excess = state.price[0] * rates[1] * totals[EXCESS]
    return float(rates[0] * totals[DURATION] + excess)


@compiled_bare
def _period(cooling: Cooling) -> int:
    """Return the moves between two settings of temperature and price."""
    return max(1, min(_LONGEST_PERIOD, cooling.moves // _PERIODS))


@compiled_bare
def _temperature(state: State, cooling: Cooling) -> float:
    share = state.move[0] / cooling.moves
    return float(cooling.hot * (cooling.cold / cooling.hot) ** share)


@compiled_bare
def _set_price(state: State, cooling: Cooling) -> None:
    share, period = state.move[0] / cooling.moves, _period(cooling)
    if share < _SEARCHING:
        left = 1 - share / _SEARCHING
        scale = state.board.num_ops * state.board.budget
        target = cooling.target * left * left * scale
        dearer, factor = state.seen[0] / period > target, _STEP
    else:
        past = (share - _SEARCHING) / (1 - _SEARCHING)
        target = _FIRST_FITTING + (_LAST_FITTING - _FIRST_FITTING) * past
        dearer, factor = state.seen[1] / period < target, _SMALL_STEP
    state.price[0] *= factor if dearer else 1 / factor
    state.seen[:] = 0


@compiled_bare
def _respace(state: State) -> None:
    """Lay the schedule out again with new gaps: moves use the old ones up."""
    size = read_off(state.board, state.steps)
    if size < _CROWDED * state.board.line.shape[1]:
        for step in range(size):
            state.gaps[step] = below(state.random, 1024)
        lay_out(state.board, state.steps, size, state.gaps)


@compiled_bare
def _keep_best(state: State) -> None:
    totals, found = state.board.totals, state.found
    shorter = found[0] < 0 or totals[DURATION] < found[1]
    if shorter and totals[EXCESS] == 0:
        found[0], found[1] = read_off(state.board, state.best), totals[DURATION]
