"""Cascades: an op takes what it needs along, or what needs it, to another place.

They are what finds other orders: an op alone can move only between its inputs and its
uses, which in a dense graph is nowhere.
"""

from __future__ import annotations

from .jit import RandomState, compiled_bare, uniform
from .journal import Journal, distance, empty_near, latest, pop, push, shift
from .slots import AFTER, AT, BEFORE, EMPTY, MARK, OWNER, RUNS, Board

EARLIER, LATER = 1, -1
_MOST_OPS = 24
"""Ops that one cascade may move."""
_DRAG, _DRAG_REACH, _FEW_SLOTS = 0.8, 16, 2
"""How often an input is delayed too, how near to its use, and from what room on."""


@compiled_bare
def reorder(
    board: Board, journal: Journal, op: int, direction: int, random: RandomState
) -> None:
    """Run an op earlier, after what it needs; or later, before what needs it.

    What is in the way goes along. To go later an op may run only once, for its later
    runs have places of their own.
    """
    here, end = board.ops[op, AT], board.line.shape[1] - 1
    room = here if direction == EARLIER else end - here
    slot = here - direction * distance(random, room)
    once = direction == EARLIER or board.ops[op, RUNS] == 1
    if 0 < slot < end and once and _gather(board, journal, op, slot, direction):
        _sort(board, journal, direction)
        _line_up(board, journal, slot, direction)


@compiled_bare
def _gather(board: Board, journal: Journal, op: int, slot: int, direction: int) -> bool:
    """Stack an op and all that is in its way; return whether that may move."""
    column = BEFORE if direction == EARLIER else AFTER
    push(journal, op, 0)
    done, fits = 0, True
    while done < journal.sizes[1] and fits:
        gathered = journal.stack[done, 0]
        first, until = board.ops[gathered, column], board.ops[gathered + 1, column]
        for at in range(first, until):
            other = board.links[at]
            if direction * (board.ops[other, AT] - slot) >= 0:
                once = direction == EARLIER or board.ops[other, RUNS] == 1
                fits &= once and _join(board, journal, other)
        done += 1
    for position in range(journal.sizes[1]):
        board.ops[journal.stack[position, 0], MARK] = 0
    return fits


@compiled_bare
def _join(board: Board, journal: Journal, op: int) -> bool:
    """Stack an op once; return whether the cascade is still short enough."""
    if not board.ops[op, MARK]:
        if journal.sizes[1] >= _MOST_OPS:
            return False
        board.ops[op, MARK] = 1
        push(journal, op, 0)
    return True


@compiled_bare
def _sort(board: Board, journal: Journal, direction: int) -> None:
    """Sort the stacked ops by their first runs, against the direction they go."""
    for position in range(1, journal.sizes[1]):
        op, to = journal.stack[position, 0], position
        key = direction * board.ops[op, AT]
        while to > 0 and direction * board.ops[journal.stack[to - 1, 0], AT] > key:
            journal.stack[to, 0] = journal.stack[to - 1, 0]
            to -= 1
        journal.stack[to, 0] = op


@compiled_bare
def _line_up(board: Board, journal: Journal, slot: int, direction: int) -> None:
    """Move the stacked ops to the empty slots from one on; who is there, stays."""
    for position in range(journal.sizes[1]):
        op = journal.stack[position, 0]
        here = board.ops[op, AT]
        while direction * (here - slot) > 0 and board.line[OWNER, slot] != EMPTY:
            slot += direction
        if direction * (here - slot) > 0:
            shift(board, journal, op, 0, slot)
        else:
            slot = here
        slot += direction


@compiled_bare
def delay(board: Board, journal: Journal, op: int, random: RandomState) -> None:
    """Run an op later before its uses, and with it inputs that nothing else needs."""
    here, high = board.ops[op, AT], latest(board, op)
    if board.ops[op, RUNS] > 1:
        high = min(high, board.ops[op, AT + 1] - 1)
    if high <= here + 1:
        return
    slot = here + distance(random, high - here + 1)
    if uniform(random) < 0.5:
        slot = high + 1 - distance(random, high - here + 1)
    slot = empty_near(board, slot, here + 1, high)
    if slot != EMPTY:
        push(journal, op, slot)
    while journal.sizes[1] > 0 and journal.sizes[0] < _MOST_OPS:
        moved, slot = pop(journal)
        left = board.ops[moved, AT]
        if board.line[OWNER, slot] == EMPTY and slot > left:
            shift(board, journal, moved, 0, slot)
            _drag(board, journal, moved, left, random)


@compiled_bare
def _drag(
    board: Board, journal: Journal, op: int, left: int, random: RandomState
) -> None:
    """Stack the inputs that the op alone kept from running later than `left`."""
    for at in range(board.ops[op, BEFORE], board.ops[op + 1, BEFORE]):
        source = board.links[at]
        if board.ops[source, RUNS] > 1 or uniform(random) >= _DRAG:
            continue
        here, high = board.ops[source, AT], latest(board, source)
        if high >= left and high - here >= _FEW_SLOTS:
            wanted = high + 1 - distance(random, _DRAG_REACH)
            slot = empty_near(board, wanted, here + 1, high)
            if slot != EMPTY:
                push(journal, source, slot)
