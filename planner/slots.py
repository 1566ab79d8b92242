"""A schedule laid out on slots, most of them empty, and its memory at each of them.

Between two runs there is room for others, so that a run is added, taken out or moved
without touching the rest, and what that changes is a few ranges of memory:

```
 slot     0    1    2    3    4    5    6    7    8    9
 run    given  -    0    -    1    2    -    0    3   end
 value of op 0      [==============)    [========]
```

The *excess* is the bytes over the budget, summed over the slots that have a run. Two
more runs stand at the ends: the first slot makes what the step is given, the last one
reads the outputs, so that nothing else is special about either. There is no turn from
forward to backward: the slots are for steps of one phase.

Bytes are counted in units, sizes rounded up and the budget down, so that sums over all
slots fit 64 bits and what fits here fits in bytes.

A board has few arrays of many columns: compiled_bare code counts the references to each
array of a tuple at each call, which would take longer than the moves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .jit import IntArray, compiled_bare
from .problem import Problem, flat

EMPTY = -1
MOST_RUNS = 12
"""Runs of one op for which there is room."""
EXCESS, DURATION, REPEATED = 0, 1, 2
"""Totals; `REPEATED` counts the ops that run more than once."""
OWNER, MEMORY, BUSY = 0, 1, 2
"""Rows of the line of slots: the op that runs there, or `EMPTY`; units live; and 1
where a step runs, 0 elsewhere and at both ends."""
TIME, WORKSPACE, PINNED, READS, MAKES, BEFORE, AFTER = 0, 1, 2, 3, 4, 5, 6
"""Columns of an op that stay the same. The last four say where in the links its list
begins, which ends where the next op's begins: values that it reads and makes, ops that
run before its first run and after it."""
RUNS, PLACE, LISTED, MARK, AT = 7, 8, 9, 10, 11
"""Columns of an op that change: its number of runs, its place among the ops that run
more than once, the op that has the place of this row's number, a mark for searches,
and from `AT` on the slot of each run."""
SIZE, MAKER, READERS, ENDS = 0, 1, 2, 3
"""Columns of a value: its units, the op that makes it, its list of readers, and from
`ENDS` on the slot at which its instance of each run ends."""
_SUM_BITS = 61


class Board(NamedTuple):
    """A schedule on slots. Functions below keep all of it consistent."""

    num_ops: int
    """Ops of the problem; then come the one that gives and the one that ends."""
    budget: int
    """Units for what is not resident."""
    line: IntArray
    """By row and slot."""
    ops: IntArray
    """By op and column."""
    values: IntArray
    """By value and column."""
    links: IntArray
    totals: IntArray


def board(problem: Problem, budget: int, num_slots: int) -> Board:
    """Return an empty board for a problem without a backward phase."""
    unit, num_ops = _unit(problem), problem.num_ops
    links, starts = _links(problem)
    ops = np.zeros((num_ops + 3, AT + MOST_RUNS), dtype=np.int64)
    ops[:num_ops, TIME] = problem.durations
    ops[:num_ops, WORKSPACE] = -(-problem.workspaces // unit)
    ops[:, PINNED] = 1
    ops[:num_ops, PINNED] = problem.pinned
    for column, start in zip((READS, MAKES, BEFORE, AFTER), starts[:4], strict=True):
        ops[:, column] = start
    values = np.zeros((problem.num_values + 1, ENDS + MOST_RUNS), dtype=np.int64)
    values[:-1, SIZE] = -(-problem.sizes // unit)
    values[:-1, MAKER] = np.where(problem.producers < 0, num_ops, problem.producers)
    values[:, READERS] = starts[-1]
    return Board(
        num_ops=num_ops,
        budget=(budget - problem.resident_bytes) // unit,
        line=np.zeros((3, num_slots), dtype=np.int64),
        ops=ops,
        values=values,
        links=links,
        totals=np.zeros(3, dtype=np.int64),
    )


def _links(problem: Problem) -> tuple[IntArray, list[IntArray]]:
    """Return all lists one after another, and where in them those of each kind begin.

    The kinds are what each op reads, makes, follows and precedes, and who reads each
    value.
    """
    given = np.flatnonzero(problem.producers < 0).tolist()
    reads = _rows(problem.reads_at, problem.reads)
    reads += [[], np.flatnonzero(problem.is_output).tolist()]
    makes = [*_rows(problem.makes_at, problem.makes), given, []]
    before = [*_rows(problem.follows_at, problem.follows), [], []]
    after = _inverse(before, len(before))
    readers = _inverse(reads, problem.num_values)
    parts, starts, size = [], [], 0
    for rows in (reads, makes, before, after, readers):
        offsets, numbers = flat(rows)
        starts.append(offsets + size)
        parts.append(numbers)
        size += len(numbers)
    return np.concatenate(parts), starts


def _unit(problem: Problem) -> int:
    """Return the bytes of a unit: exact where the sum over all slots allows it."""
    common = math.gcd(*problem.sizes.tolist(), *problem.workspaces.tolist()) or 1
    slots = (8 * problem.num_ops + 256).bit_length()
    total = int(problem.sizes.sum()) + int(problem.workspaces.sum())
    return int(common << max(0, (total // common).bit_length() + slots - _SUM_BITS))


def _rows(offsets: IntArray, numbers: IntArray) -> list[list[int]]:
    rows: list[list[int]] = [part.tolist() for part in np.split(numbers, offsets[1:-1])]
    return rows


def _inverse(rows: list[list[int]], size: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(size)]
    for row, numbers in enumerate(rows):
        for number in numbers:
            found[number].append(row)
    return found


@compiled_bare
def lay_out(board: Board, steps: IntArray, size: int, gaps: IntArray) -> None:
    """Put a schedule on the board, evenly, each step moved on by its gap's share.

    A gap of 0 to 1023 is the share, in 1024ths, of the room up to the next step. No op
    may run more than `MOST_RUNS` times.
    """
    last = board.line.shape[1] - 1
    board.line[OWNER], board.line[MEMORY], board.line[BUSY] = EMPTY, 0, 0
    board.ops[:, RUNS], board.totals[:] = 0, 0
    _place(board, board.num_ops, 0)
    for step in range(size):
        start = 1 + step * (last - 1) // size
        room = 1 + (step + 1) * (last - 1) // size - start
        _place(board, steps[step], start + room * gaps[step] // 1024)
    _place(board, board.num_ops + 1, last)
    for value in range(len(board.values) - 1):
        for run in range(board.ops[board.values[value, MAKER], RUNS]):
            start = board.ops[board.values[value, MAKER], AT + run]
            end = last_use(board, value, run)
            board.values[value, ENDS + run] = end
            range_add(board, start, end, board.values[value, SIZE])


@compiled_bare
def _place(board: Board, op: int, slot: int) -> None:
    board.ops[op, AT + board.ops[op, RUNS]] = slot
    _count(board, op, 1)
    if op < board.num_ops:
        _occupy(board, op, slot)
    board.line[OWNER, slot] = op


@compiled_bare
def read_off(board: Board, steps: IntArray) -> int:
    """Write the schedule that is on the board into `steps`; return its length."""
    size = 0
    for slot in range(1, board.line.shape[1] - 1):
        if board.line[OWNER, slot] != EMPTY:
            steps[size] = board.line[OWNER, slot]
            size += 1
    return size


@compiled_bare
def range_add(board: Board, first: int, last: int, size: int) -> None:
    """Add units to the memory of a range of slots, and what that does to the excess."""
    if last < first:
        return
    budget = board.budget
    memory = board.line[MEMORY, first : last + 1]
    busy = board.line[BUSY, first : last + 1]
    change = 0
    for slot in range(len(memory)):  # written for vector instructions
        before = memory[slot] - budget
        after = before + size
        memory[slot] = after + budget
        above = max(after, 0) - max(before, 0)
        change += above if busy[slot] else 0
    board.totals[EXCESS] += change


@compiled_bare
def newest(board: Board, op: int, slot: int) -> int:
    """Return which run of an op is the last before a slot, -1 if none is."""
    run = board.ops[op, RUNS] - 1
    while run >= 0 and board.ops[op, AT + run] >= slot:
        run -= 1
    return int(run)


@compiled_bare
def last_use(board: Board, value: int, run: int) -> int:
    """Return where an instance is used last, or where it is made."""
    maker = board.values[value, MAKER]
    until = board.line.shape[1]
    if run + 1 < board.ops[maker, RUNS]:
        until = board.ops[maker, AT + run + 1]
    end = board.ops[maker, AT + run]
    for at in range(board.values[value, READERS], board.values[value + 1, READERS]):
        reader = board.links[at]
        use = newest(board, reader, until)
        if use >= 0 and board.ops[reader, AT + use] > end:
            end = board.ops[reader, AT + use]
    return int(end)


@compiled_bare
def add_run(board: Board, op: int, slot: int) -> None:
    """Run an op at an empty slot, after its first run; uses from there on bind to it.

    Its place may also be before the first run, if nothing is used in between.
    """
    run = _open_run(board, op, slot)
    _occupy(board, op, slot)
    for at in range(board.ops[op, MAKES], board.ops[op + 1, MAKES]):
        value = board.links[at]
        size = board.values[value, SIZE]
        board.values[value, ENDS + run] = slot
        if run > 0 and board.values[value, ENDS + run - 1] > slot:
            board.values[value, ENDS + run] = board.values[value, ENDS + run - 1]
            board.values[value, ENDS + run - 1] = last_use(board, value, run - 1)
            range_add(board, board.values[value, ENDS + run - 1] + 1, slot - 1, -size)
        else:
            range_add(board, slot, slot, size)
    for at in range(board.ops[op, READS], board.ops[op + 1, READS]):
        value = board.links[at]
        source = newest(board, board.values[value, MAKER], slot)
        if board.values[value, ENDS + source] < slot:
            _set_end(board, value, source, slot)


@compiled_bare
def remove_run(board: Board, op: int, run: int) -> None:
    """Take a run out; its uses bind to the one before it.

    The first run may go if none of its values is used before the second.
    """
    slot = board.ops[op, AT + run]
    for at in range(board.ops[op, MAKES], board.ops[op + 1, MAKES]):
        value = board.links[at]
        size = board.values[value, SIZE]
        if run > 0 and board.values[value, ENDS + run] > slot:
            range_add(board, board.values[value, ENDS + run - 1] + 1, slot - 1, size)
            board.values[value, ENDS + run - 1] = board.values[value, ENDS + run]
        else:
            range_add(board, slot, slot, -size)
    _close_run(board, op, run)
    for at in range(board.ops[op, READS], board.ops[op + 1, READS]):
        value = board.links[at]
        source = newest(board, board.values[value, MAKER], slot)
        if board.values[value, ENDS + source] == slot:
            _set_end(board, value, source, last_use(board, value, source))
    _vacate(board, op, slot)


@compiled_bare
def move_run(board: Board, op: int, run: int, slot: int) -> None:
    """Move a run to an empty slot between the runs of its op around it.

    Its inputs must have been made before, and a first run stays before the uses of its
    values.
    """
    left = board.ops[op, AT + run]
    _occupy(board, op, slot)
    board.ops[op, AT + run] = slot
    for at in range(board.ops[op, MAKES], board.ops[op + 1, MAKES]):
        _move_instance(board, board.links[at], run, left)
    for at in range(board.ops[op, READS], board.ops[op + 1, READS]):
        _move_use(board, board.links[at], left, slot)
    _vacate(board, op, left)


@compiled_bare
def _move_instance(board: Board, value: int, run: int, left: int) -> None:
    """Follow the maker of an instance, which has moved away from `left`."""
    size = board.values[value, SIZE]
    slot = board.ops[board.values[value, MAKER], AT + run]
    before, end = board.values[value, ENDS + run], last_use(board, value, run)
    board.values[value, ENDS + run] = end
    if slot > before or left > end:
        range_add(board, left, before, -size)
        range_add(board, slot, end, size)
    else:
        range_add(board, slot, left - 1, size)
        range_add(board, left, slot - 1, -size)
        range_add(board, before + 1, end, size)
        range_add(board, end + 1, before, -size)
    if run > 0:
        _set_end(board, value, run - 1, last_use(board, value, run - 1))


@compiled_bare
def _move_use(board: Board, value: int, left: int, slot: int) -> None:
    """Follow a reader of a value, which has moved from `left` to `slot`."""
    maker = board.values[value, MAKER]
    was, now = newest(board, maker, left), newest(board, maker, slot)
    if board.values[value, ENDS + was] == left:
        _set_end(board, value, was, last_use(board, value, was))
    if board.values[value, ENDS + now] < slot:
        _set_end(board, value, now, slot)


@compiled_bare
def _set_end(board: Board, value: int, run: int, end: int) -> None:
    size, before = board.values[value, SIZE], board.values[value, ENDS + run]
    board.values[value, ENDS + run] = end
    if end > before:
        range_add(board, before + 1, end, size)
    else:
        range_add(board, end + 1, before, -size)


@compiled_bare
def _occupy(board: Board, op: int, slot: int) -> None:
    board.line[OWNER, slot] = op
    board.line[MEMORY, slot] += board.ops[op, WORKSPACE]
    board.line[BUSY, slot] = 1
    board.totals[EXCESS] += max(board.line[MEMORY, slot] - board.budget, 0)


@compiled_bare
def _vacate(board: Board, op: int, slot: int) -> None:
    board.totals[EXCESS] -= max(board.line[MEMORY, slot] - board.budget, 0)
    board.line[BUSY, slot] = 0
    board.line[MEMORY, slot] -= board.ops[op, WORKSPACE]
    board.line[OWNER, slot] = EMPTY


@compiled_bare
def _open_run(board: Board, op: int, slot: int) -> int:
    """Make room for a run at a slot and return which of the op's runs it is."""
    run = board.ops[op, RUNS]
    while run > 0 and board.ops[op, AT + run - 1] > slot:
        _shift(board, op, run - 1, run)
        run -= 1
    board.ops[op, AT + run] = slot
    _count(board, op, 1)
    return int(run)


@compiled_bare
def _close_run(board: Board, op: int, run: int) -> None:
    for later in range(run + 1, board.ops[op, RUNS]):
        _shift(board, op, later, later - 1)
    _count(board, op, -1)


@compiled_bare
def _shift(board: Board, op: int, run: int, to: int) -> None:
    board.ops[op, AT + to] = board.ops[op, AT + run]
    for at in range(board.ops[op, MAKES], board.ops[op + 1, MAKES]):
        value = board.links[at]
        board.values[value, ENDS + to] = board.values[value, ENDS + run]


@compiled_bare
def _count(board: Board, op: int, more: int) -> None:
    """Count a run more or less, its time, and whether its op is repeated."""
    before, after = board.ops[op, RUNS], board.ops[op, RUNS] + more
    board.ops[op, RUNS] = after
    board.totals[DURATION] += more * board.ops[op, TIME]
    if before == 1 and after == 2:
        board.ops[op, PLACE] = board.totals[REPEATED]
        board.ops[board.totals[REPEATED], LISTED] = op
        board.totals[REPEATED] += 1
    elif before == 2 and after == 1:
        board.totals[REPEATED] -= 1
        last = board.ops[board.totals[REPEATED], LISTED]
        board.ops[board.ops[op, PLACE], LISTED] = last
        board.ops[last, PLACE] = board.ops[op, PLACE]
