"""Exact reductions: a smaller problem with the same schedules, peaks and durations.

Each holds for every schedule, so none can hide a plan or loosen a bound:

* values that one op makes, that the same ops read, and that end alike are born and
  die together: they become one value of their summed bytes;
* a value that nobody reads or returns lives for the one step that makes it: its
  bytes join that op's workspace;
* a value of zero bytes costs nothing to hold, so it never needs its producer again:
  it is left out, while the order it imposes on first runs stays;
* an op none of whose values is read or returned gains nothing from a second run: it
  is pinned.

Ops keep their ids, so the schedule of a reduced problem needs no translation.
"""

from __future__ import annotations

from collections.abc import Container

from encamp.graph import CostGraph

from .problem import Lists, Problem, assemble, read


def reduce(graph: CostGraph, barred: Container[int] = ()) -> Problem:
    """Return the reduced problem of a graph. Linear in ops and edges.

    `barred` values may not be held at the first backward step.
    """
    lists = drop_tokens(read(graph, barred))
    lists = merge_siblings(lists)
    lists = absorb_unread(lists)
    return assemble(graph, pin_useless(lists))


def unreduced(graph: CostGraph, barred: Container[int] = ()) -> Problem:
    """Return the problem of a graph as it stands."""
    return assemble(graph, read(graph, barred))


def drop_tokens(lists: Lists) -> Lists:
    """Leave out the values of zero bytes."""
    return _keep(lists, [bool(size) for size in lists.sizes])


def merge_siblings(lists: Lists) -> Lists:
    """Merge values with one producer, one set of readers and one ending."""
    leader: dict[tuple[int, tuple[int, ...], bool, bool], int] = {}
    sizes = list(lists.sizes)
    keep = [True] * len(sizes)
    makers = _makers(lists)
    for value, readers in enumerate(_readers(lists)):
        ending, barred = lists.is_output[value], lists.barred[value]
        key = (makers[value], tuple(readers), ending, barred)
        first = leader.setdefault(key, value)
        if first != value:
            keep[value] = False
            sizes[first] += sizes[value]
    return _keep(lists._replace(sizes=sizes), keep)


def absorb_unread(lists: Lists) -> Lists:
    """Move values that nobody reads or returns into their op's workspace."""
    keep = [True] * len(lists.sizes)
    workspaces = list(lists.workspaces)
    makers = _makers(lists)
    for value, readers in enumerate(_readers(lists)):
        if makers[value] >= 0 and not readers and not lists.is_output[value]:
            keep[value] = False
            workspaces[makers[value]] += lists.sizes[value]
    return _keep(lists._replace(workspaces=workspaces), keep)


def pin_useless(lists: Lists) -> Lists:
    """Pin the ops that make no value which is read or returned."""
    read_by = _readers(lists)
    useful = [
        any(read_by[value] or lists.is_output[value] for value in made)
        for made in lists.makes
    ]
    pinned = [p or not u for p, u in zip(lists.pinned, useful, strict=True)]
    return lists._replace(pinned=pinned)


def _makers(lists: Lists) -> list[int]:
    makers = [-1] * len(lists.sizes)
    for op, made in enumerate(lists.makes):
        for value in made:
            makers[value] = op
    return makers


def _readers(lists: Lists) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in lists.sizes]
    for op, values in enumerate(lists.reads):
        for value in values:
            readers[value].append(op)
    return readers


def _keep(lists: Lists, keep: list[bool]) -> Lists:
    """Renumber the values that stay and forget the others."""
    kept = [value for value, stays in enumerate(keep) if stays]
    number = {value: position for position, value in enumerate(kept)}
    return lists._replace(
        sizes=[lists.sizes[value] for value in kept],
        is_output=[lists.is_output[value] for value in kept],
        barred=[lists.barred[value] for value in kept],
        reads=[[number[v] for v in row if v in number] for row in lists.reads],
        makes=[[number[v] for v in row if v in number] for row in lists.makes],
    )
