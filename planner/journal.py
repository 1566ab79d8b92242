"""What the move of a schedule on slots under way has done, so that it can be undone.

Every step of a move leaves a valid schedule. A move that is regretted is taken back
step by step from the journal, which costs what the move did.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .jit import IntArray, RandomState, compiled_bare, uniform
from .slots import (
    AFTER,
    AT,
    BEFORE,
    EMPTY,
    OWNER,
    Board,
    add_run,
    move_run,
    newest,
    remove_run,
)

MOST_STEPS = 64
"""Steps of one move."""
_ADDED, _REMOVED, _MOVED = 0, 1, 2
_OP, _WHAT, _SOURCE, _TARGET = 0, 1, 2, 3
_SLOT = 1
_NEAR = 12
"""Slots around a wanted one among which an empty one will do."""


class Journal(NamedTuple):
    """The steps of the move under way, and a stack of runs yet to deal with."""

    steps: IntArray
    """By row: the op, what was done, the slot left and the slot taken."""
    stack: IntArray
    """By row: an op and a slot."""
    sizes: IntArray
    """Steps written, and entries of the stack."""


def journal() -> Journal:
    """Return an empty journal."""
    return Journal(
        np.zeros((MOST_STEPS, 4), dtype=np.int64),
        np.zeros((MOST_STEPS, 2), dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


@compiled_bare
def add(board: Board, journal: Journal, op: int, slot: int) -> None:
    """Run an op at an empty slot, and write it down."""
    _write(journal, _ADDED, op, 0, slot)
    add_run(board, op, slot)


@compiled_bare
def remove(board: Board, journal: Journal, op: int, slot: int) -> None:
    """Take out the run of an op at a slot, and write it down."""
    _write(journal, _REMOVED, op, slot, 0)
    remove_run(board, op, newest(board, op, slot + 1))


@compiled_bare
def shift(board: Board, journal: Journal, op: int, run: int, slot: int) -> None:
    """Move a run of an op to an empty slot, and write it down."""
    _write(journal, _MOVED, op, board.ops[op, AT + run], slot)
    move_run(board, op, run, slot)


@compiled_bare
def _write(journal: Journal, what: int, op: int, source: int, target: int) -> None:
    step = journal.sizes[0]
    journal.steps[step, _OP], journal.steps[step, _WHAT] = op, what
    journal.steps[step, _SOURCE], journal.steps[step, _TARGET] = source, target
    journal.sizes[0] += 1


@compiled_bare
def take_back(board: Board, journal: Journal) -> None:
    """Undo all that is written."""
    for step in range(journal.sizes[0] - 1, -1, -1):
        op, what = journal.steps[step, _OP], journal.steps[step, _WHAT]
        if what == _REMOVED:
            add_run(board, op, journal.steps[step, _SOURCE])
            continue
        run = newest(board, op, journal.steps[step, _TARGET] + 1)
        if what == _ADDED:
            remove_run(board, op, run)
        else:
            move_run(board, op, run, journal.steps[step, _SOURCE])


@compiled_bare
def push(journal: Journal, op: int, slot: int) -> None:
    """Stack a run to deal with, unless the stack is full."""
    if journal.sizes[1] < MOST_STEPS:
        journal.stack[journal.sizes[1], _OP] = op
        journal.stack[journal.sizes[1], _SLOT] = slot
        journal.sizes[1] += 1


@compiled_bare
def pop(journal: Journal) -> tuple[int, int]:
    """Take the last run from the stack: its op and its slot."""
    journal.sizes[1] -= 1
    top = journal.sizes[1]
    return journal.stack[top, _OP], journal.stack[top, _SLOT]


@compiled_bare
def distance(random: RandomState, most: int) -> int:
    """Draw from 1 to `most`, log-uniform: near is tried as often as far."""
    if most <= 1:
        return 1
    return int(math.exp(uniform(random) * math.log(most)))


@compiled_bare
def empty_near(board: Board, slot: int, low: int, high: int) -> int:
    """Return an empty slot from `low` to `high` near the one wanted, or `EMPTY`."""
    slot = min(max(slot, low), high)
    for distance in range(_NEAR):
        if slot + distance <= high and board.line[OWNER, slot + distance] == EMPTY:
            return slot + distance
        if slot - distance >= low and board.line[OWNER, slot - distance] == EMPTY:
            return slot - distance
    return EMPTY


@compiled_bare
def earliest(board: Board, op: int) -> int:
    """Return the first slot at which all that an op needs has been made."""
    slot = 1
    for at in range(board.ops[op, BEFORE], board.ops[op + 1, BEFORE]):
        slot = max(slot, board.ops[board.links[at], AT] + 1)
    return int(slot)


@compiled_bare
def latest(board: Board, op: int) -> int:
    """Return the last slot before anything needs the first run of an op."""
    slot = board.line.shape[1] - 2
    for at in range(board.ops[op, AFTER], board.ops[op + 1, AFTER]):
        slot = min(slot, board.ops[board.links[at], AT] - 1)
    return int(slot)
