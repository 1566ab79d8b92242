"""The planner's view of a cost graph: integer arrays that compiled loops read.

Ops keep their ids, so a schedule of the problem is a schedule of the graph. Resident
values are left out (their bytes are one constant); the remaining values are numbered
anew. Lists of varying length are stored flat with offsets: the values that op `o`
reads are `reads[reads_at[o]:reads_at[o + 1]]`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from encamp.graph import CostGraph

from .jit import BoolArray, IntArray

NO_OP = -1
"""Producer of a value that the step is given."""


class Problem(NamedTuple):
    """One training step as arrays: indexed by op, by value, or flat with offsets."""

    num_ops: int
    num_forward: int
    num_values: int
    resident_bytes: int
    durations: IntArray
    """Nanoseconds of each op."""
    workspaces: IntArray
    """Bytes that each op holds beside its values, only while it runs."""
    pinned: BoolArray
    """Ops that run once: not allowed to run again, or of no use a second time."""
    sizes: IntArray
    """Bytes of each value."""
    producers: IntArray
    """The op that makes each value, or `NO_OP`."""
    is_output: BoolArray
    """Values alive at the end of the step."""
    barred: BoolArray
    """Values that a rule forbids to hold at the first backward step."""
    reads_at: IntArray
    reads: IntArray
    """Values that each op reads."""
    makes_at: IntArray
    makes: IntArray
    """Values that each op makes."""
    follows_at: IntArray
    follows: IntArray
    """Ops whose first run each op's first run must follow."""


class Lists(NamedTuple):
    """The parts of a problem while they are still lists: what each op touches."""

    sizes: list[int]
    is_output: list[bool]
    barred: list[bool]
    reads: list[list[int]]
    makes: list[list[int]]
    workspaces: list[int]
    pinned: list[bool]


def read(graph: CostGraph, barred: Container[int] = ()) -> Lists:
    """Return the non-resident part of a graph, values numbered in graph order.

    `barred` values may not be held at the first backward step.
    """
    kept = [v.id for v in graph.values if not v.resident]
    number = {value: position for position, value in enumerate(kept)}
    outputs = set(graph.outputs)
    return Lists(
        sizes=[graph.values[value].bytes for value in kept],
        is_output=[value in outputs for value in kept],
        barred=[value in barred for value in kept],
        reads=[[number[v] for v in op.inputs if v in number] for op in graph.ops],
        makes=[[number[v] for v in op.outputs] for op in graph.ops],
        workspaces=[op.workspace_bytes for op in graph.ops],
        pinned=[not op.recompute.allowed for op in graph.ops],
    )


def assemble(graph: CostGraph, lists: Lists) -> Problem:
    """Return the problem of a graph whose values and ops are those of `lists`."""
    reads_at, reads = flat(lists.reads)
    makes_at, makes = flat(lists.makes)
    follows_at, follows = flat(_predecessors(graph))
    producers = np.full(len(lists.sizes), NO_OP, dtype=np.int64)
    for op, made in enumerate(lists.makes):
        producers[made] = op
    return Problem(
        num_ops=len(graph.ops),
        num_forward=graph.num_forward,
        num_values=len(lists.sizes),
        resident_bytes=graph.resident_bytes,
        durations=_integers(op.duration_ns for op in graph.ops),
        workspaces=_integers(lists.workspaces),
        pinned=np.array(lists.pinned, dtype=np.bool_),
        sizes=_integers(lists.sizes),
        producers=producers,
        is_output=np.array(lists.is_output, dtype=np.bool_),
        barred=np.array(lists.barred, dtype=np.bool_),
        reads_at=reads_at,
        reads=reads,
        makes_at=makes_at,
        makes=makes,
        follows_at=follows_at,
        follows=follows,
    )


def flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return offsets and the concatenation of lists of varying length."""
    offsets = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in lists], out=offsets[1:])
    return offsets, _integers(number for one in lists for number in one)


def _predecessors(graph: CostGraph) -> list[list[int]]:
    makers = ([graph.producer[v] for v in op.inputs] for op in graph.ops)
    return [sorted({m for m in found if m is not None}) for found in makers]


def _integers(numbers: Iterable[int]) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64)
