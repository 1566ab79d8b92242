"""Random moves of a schedule on slots: relocate a run, run more, run less, reorder."""

from __future__ import annotations

from .cascades import EARLIER, LATER, delay, reorder
from .jit import RandomState, below, compiled_bare, uniform
from .journal import (
    Journal,
    add,
    distance,
    earliest,
    empty_near,
    latest,
    pop,
    push,
    remove,
    shift,
)
from .slots import (
    AT,
    EMPTY,
    ENDS,
    LISTED,
    MAKER,
    MOST_RUNS,
    OWNER,
    PINNED,
    READS,
    REPEATED,
    RUNS,
    Board,
    last_use,
    newest,
)

_LEAST_ROOM, _REACH = 4, 64
"""No recomputation for a value that is held through fewer slots; none of an input
further ahead of its use."""
_MOST_LESS, _MOST_MORE = 24, 40
"""Steps after which a chain of removals ends, and one of recomputations."""
_REPEATED = 0.25
"""Share of relocations that are of an op which runs more than once."""
_MORE, _MORE_SHARE, _LESS, _LESS_SHARE = 0.4, 0.8, 0.3, 0.6
"""How often a recomputation is added and removed for each input of another: so often,
and no more than so many on average."""


@compiled_bare
def move(board: Board, journal: Journal, cascades: float, random: RandomState) -> None:
    """Do one random move; a share of them are cascades of first runs.

    The journal is empty afterwards if it was impossible.
    """
    journal.sizes[:] = 0
    if uniform(random) < cascades:
        _cascade(board, journal, random)
        return
    kind = below(random, 100)
    if kind < 55:
        _relocate(board, journal, random)
    if kind >= 75:
        _run_less(board, journal, random)
    if 55 <= kind < 75 or kind >= 90:
        _run_more(board, journal, random)


@compiled_bare
def _cascade(board: Board, journal: Journal, random: RandomState) -> None:
    op, kind = below(random, board.num_ops), below(random, 3)
    if kind == 0:
        delay(board, journal, op, random)
    else:
        direction = EARLIER if kind == 1 else LATER
        reorder(board, journal, op, direction, random)


@compiled_bare
def _relocate(board: Board, journal: Journal, random: RandomState) -> None:
    """Move one run between its inputs, its uses and the other runs of its op."""
    op = below(random, board.num_ops)
    if board.totals[REPEATED] and uniform(random) < _REPEATED:
        op = board.ops[below(random, board.totals[REPEATED]), LISTED]
    run = below(random, board.ops[op, RUNS])
    low, high = earliest(board, op), board.line.shape[1] - 2
    if run == 0:
        high = latest(board, op)
    else:
        low = max(low, board.ops[op, AT + run - 1] + 1)
    if run + 1 < board.ops[op, RUNS]:
        high = min(high, board.ops[op, AT + run + 1] - 1)
    if high <= low:
        return
    here = board.ops[op, AT + run]
    slot = empty_near(board, _somewhere(here, low, high, random), low, high)
    if slot != EMPTY:
        shift(board, journal, op, run, slot)


@compiled_bare
def _somewhere(here: int, low: int, high: int, random: RandomState) -> int:
    """Draw a slot: near the one it is at, near an end of the range, or anywhere."""
    choice = uniform(random)
    if choice < 0.3:
        return here + distance(random, high - here + 1)
    if choice < 0.6:
        return here - distance(random, here - low + 1)
    if choice < 0.75:
        return low + distance(random, high - low + 1) - 1
    if choice < 0.9:
        return high - distance(random, high - low + 1) + 1
    return low + below(random, high - low + 1)


@compiled_bare
def _run_more(board: Board, journal: Journal, random: RandomState) -> None:
    """Make an input of a random run again, some slots before it, with a chain."""
    reader = below(random, board.num_ops)
    first, until = board.ops[reader, READS], board.ops[reader + 1, READS]
    if first == until:
        return
    use = board.ops[reader, AT + below(random, board.ops[reader, RUNS])]
    op = board.values[board.links[first + below(random, until - first)], MAKER]
    held = use - board.ops[op, AT + newest(board, op, use)]
    if not _may_run_more(board, op) or held < _LEAST_ROOM:
        return
    slot = empty_near(board, use - distance(random, held), use - held + 1, use - 1)
    journal.sizes[1] = 0
    if slot != EMPTY:
        push(journal, op, slot)
    while journal.sizes[1] > 0 and journal.sizes[0] <= _MOST_MORE:
        op, slot = pop(journal)
        if board.line[OWNER, slot] == EMPTY and _may_run_more(board, op):
            _chain(board, journal, op, slot, random)
            add(board, journal, op, slot)


@compiled_bare
def _may_run_more(board: Board, op: int) -> bool:
    return bool(board.ops[op, PINNED] == 0 and board.ops[op, RUNS] < MOST_RUNS)


@compiled_bare
def _chain(
    board: Board, journal: Journal, op: int, slot: int, random: RandomState
) -> None:
    """Stack the inputs that would be held longer for a run at a slot: some of them.

    More than one of them on average would make chains without end.
    """
    first, until = board.ops[op, READS], board.ops[op + 1, READS]
    chance = min(_MORE, _MORE_SHARE / max(1, until - first))
    for at in range(first, until):
        source = board.values[board.links[at], MAKER]
        end = board.values[board.links[at], ENDS + newest(board, source, slot)]
        if slot - end < _LEAST_ROOM or not _may_run_more(board, source):
            continue
        if uniform(random) < chance:
            wanted = slot - distance(random, min(slot - end - 1, _REACH))
            made = empty_near(board, wanted, end + 1, slot - 1)
            if made != EMPTY:
                push(journal, source, made)


@compiled_bare
def _run_less(board: Board, journal: Journal, random: RandomState) -> None:
    """Take out a recomputation, and with it some that were made for it."""
    if board.totals[REPEATED] == 0:
        return
    op = board.ops[below(random, board.totals[REPEATED]), LISTED]
    run = 1 + below(random, board.ops[op, RUNS] - 1)
    push(journal, op, board.ops[op, AT + run])
    while journal.sizes[1] > 0 and journal.sizes[0] < _MOST_LESS:
        op, slot = pop(journal)
        if _is_spare(board, op, slot):
            remove(board, journal, op, slot)
            _unchain(board, journal, op, slot, random)


@compiled_bare
def _is_spare(board: Board, op: int, slot: int) -> bool:
    """Return whether a run of an op at a slot is there and may go."""
    if board.line[OWNER, slot] != op or board.ops[op, RUNS] < 2:
        return False
    later = board.ops[op, AT + 1] <= latest(board, op)
    return bool(slot > board.ops[op, AT] or later)


@compiled_bare
def _unchain(
    board: Board, journal: Journal, op: int, slot: int, random: RandomState
) -> None:
    """Stack the runs that made inputs for one taken out: all unused, some others."""
    first, until = board.ops[op, READS], board.ops[op + 1, READS]
    chance = min(_LESS, _LESS_SHARE / max(1, until - first))
    for at in range(first, until):
        source = board.values[board.links[at], MAKER]
        if board.ops[source, RUNS] > 1:
            run = newest(board, source, slot)
            made = board.ops[source, AT + run]
            unused = last_use(board, board.links[at], run) == made
            if unused or (run > 0 and uniform(random) < chance):
                push(journal, source, made)
