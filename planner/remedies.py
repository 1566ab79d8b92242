"""What would lower the smallest budget of a step, and by how much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from encamp.graph import CostGraph, Kind, Op, Recompute, Value
from encamp.replay import Timeline, replay

from .bounds import Cuts
from .minimum import floor_of, squeeze
from .progress import Progress
from .reduce import reduce
from .replay_fast import peak
from .result import located
from .task import Task

_MOST_UNPINNED = 4
_ROUNDS_PER_OP = 0.25
_SHARE = 1 / 8
"""Of the time that is left, what one remedy may take."""
_LEAST_GAIN = 1000
"""A remedy that lowers the budget by less than one part in so many is none."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change to the step, and a budget that a plan of the changed step fits."""

    what: str
    budget_bytes: int


def remedies(task: Task, timeline: Timeline) -> tuple[Remedy, ...]:
    """Return what would lower the peak of the smallest plan, most useful first.

    Tried are running a pinned op again whose value waits at the peak, and half the
    batch, of which every size but those of parameters and their gradients is taken to
    be half. The budgets are those of schedules found; smaller ones may exist.
    """
    found = [*_unpinned(task, timeline), *_halved(task.graph, timeline)]
    enough = timeline.peak_bytes - timeline.peak_bytes // _LEAST_GAIN
    useful = (remedy for remedy in found if remedy.budget_bytes < enough)
    return tuple(sorted(useful, key=lambda remedy: remedy.budget_bytes))


def _unpinned(task: Task, timeline: Timeline) -> Iterator[Remedy]:
    for op in _waiting(task.obedience.graph, timeline)[:_MOST_UNPINNED]:
        if task.clock.is_over():
            return
        ops = list(task.obedience.graph.ops)
        ops[op.id] = replace(op, recompute=Recompute())
        unpinned = replace(task.obedience.graph, ops=tuple(ops))
        smallest = _smallest(task, unpinned, timeline.peak_bytes)
        place = located(op.name, op.module, op.source)
        yield Remedy(f"run {place} again, pinned: {op.recompute.reason}", smallest)


def _waiting(graph: CostGraph, timeline: Timeline) -> list[Op]:
    """Return pinned ops of which most bytes live, unused, at the peak."""
    running = graph.ops[timeline.steps[timeline.peak_step]]
    waiting: dict[int, int] = {}
    for value in timeline.live(timeline.peak_step):
        maker = graph.producer[value]
        used = value in running.inputs or value in running.outputs
        if maker is None or used or graph.ops[maker].recompute.allowed:
            continue
        waiting[maker] = waiting.get(maker, 0) + graph.values[value].bytes
    largest = sorted(waiting, key=lambda op: (-waiting[op], op))
    return [graph.ops[op] for op in largest]


def _smallest(task: Task, graph: CostGraph, below: int) -> int:
    problem = reduce(graph, task.obedience.barred)
    cuts, clock = Cuts(problem), task.clock.share(_SHARE)
    under_way = Progress(problem, below, task.options, clock)
    floor = floor_of(cuts, under_way)
    steps = squeeze(cuts, under_way, floor, rounds_per_op=_ROUNDS_PER_OP)
    return int(peak(problem, steps))


def _halved(graph: CostGraph, timeline: Timeline) -> Iterator[Remedy]:
    """Yield half the batch, if there is one: the same schedule on half the bytes."""
    if all(value.kind is not Kind.INPUT for value in graph.values):
        return
    values = tuple(_half(graph, value) for value in graph.values)
    ops = (replace(op, workspace_bytes=-(-op.workspace_bytes // 2)) for op in graph.ops)
    half = replace(graph, values=values, ops=tuple(ops))
    yield Remedy("half the batch", replay(half, timeline.steps).peak_bytes)


def _half(graph: CostGraph, value: Value) -> Value:
    """Return a value of half the batch, rounded up."""
    of_params = value.kind in (Kind.PARAM, Kind.BUFFER, Kind.OPTIMIZER)
    gradient = value.kind is Kind.GRADIENT and value.id in graph.outputs
    return (
        value if of_params or gradient else replace(value, bytes=-(-value.bytes // 2))
    )
