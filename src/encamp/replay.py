"""What a schedule means: `replay` defines peak memory and duration.

Walking the steps, each use of a value binds to the newest run of its producer. An
instance of a value lives from its run to its last bound use; one that nobody uses
lives for the one step that made it. What the step was given but does not hold
(tangents) lives from the first step to its last use. Outputs are kept to the end:
those of the forward are handed to the caller when the first backward step begins,
so the instance of that moment is the one that stays; those of the backward are the
last instances. Memory at a step is the resident bytes, every live instance (the
step's own outputs among them) and the step's workspace; **peak** is the maximum and
**duration** the sum.

```
 steps      0    1    2    0    3          value of op 0 is used by ops 1 and 3
 op 0     [=======)                        first instance: steps 0-1
 again                   [=====]           second instance: steps 3-4
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NoReturn

from .errors import InvalidPlanError
from .graph import CostGraph, Phase


@dataclass(frozen=True, slots=True)
class Instance:
    """One run's copy of a value, live from step `born` to step `dies`, inclusive."""

    value: int
    born: int
    dies: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """What replaying a schedule found, step by step."""

    steps: tuple[int, ...]
    memory: tuple[int, ...]
    instances: tuple[Instance, ...]
    peak_bytes: int
    peak_step: int
    duration_ns: int

    def live(self, step: int) -> tuple[int, ...]:
        """Return the non-resident values live at a step, in order of birth."""
        return tuple(i.value for i in self.instances if i.born <= step <= i.dies)


def replay(graph: CostGraph, steps: Sequence[int] | None = None) -> Timeline:
    """Replay a schedule (default: every op once, in order) and return its timeline.

    Linear in the steps, their edges and the values, but for one sort of the instances.

    Raises:
        InvalidPlanError: there is no step, a step names no op of the graph, or it
            reads a value that no earlier step made.

    """
    order = tuple(range(len(graph.ops))) if steps is None else tuple(steps)
    _require_steps(graph, order)
    instances = _instances(graph, order)
    memory = _memory(graph, order, instances)
    peak = max(memory)
    return Timeline(
        steps=order,
        memory=memory,
        instances=instances,
        peak_bytes=peak,
        peak_step=memory.index(peak),
        duration_ns=sum(graph.ops[op].duration_ns for op in order),
    )


def breakdown(graph: CostGraph, timeline: Timeline) -> dict[str, int]:
    """Itemise the peak by kind of value, plus "workspace"; it sums to the peak."""
    items: dict[str, int] = {}
    resident = [v.id for v in graph.values if v.resident]
    for value in (*resident, *timeline.live(timeline.peak_step)):
        kind = str(graph.values[value].kind)
        items[kind] = items.get(kind, 0) + graph.values[value].bytes
    at_peak = graph.ops[timeline.steps[timeline.peak_step]]
    items["workspace"] = at_peak.workspace_bytes
    return items


def _require_steps(graph: CostGraph, order: tuple[int, ...]) -> None:
    if not order:
        msg = f"a schedule of {graph.name!r} without steps"
        raise InvalidPlanError(msg)
    for position, op in enumerate(order):
        if not 0 <= op < len(graph.ops):
            msg = f"steps[{position}] is op {op}; the graph has {len(graph.ops)} ops"
            raise InvalidPlanError(msg)


def _instances(graph: CostGraph, order: tuple[int, ...]) -> tuple[Instance, ...]:
    """Bind each use to the newest run and return all instances, by birth."""
    last, boundary = len(order) - 1, _boundary(graph, order)
    done: list[Instance] = []
    born = dict.fromkeys(_given(graph), 0)
    dies = dict(born)
    kept: set[int] = set()
    for position, index in enumerate(order):
        if position == boundary:
            kept = _keep(graph.outputs, dies, last)
        for value in graph.ops[index].inputs:
            if value in born:
                dies[value] = max(dies[value], position)
            elif not graph.values[value].resident:
                _unavailable(graph, position, index, value)
        for value in graph.ops[index].outputs:
            if value in born:
                done.append(Instance(value, born[value], dies[value]))
            born[value] = dies[value] = position
    _keep([value for value in graph.outputs if value not in kept], dies, last)
    done += [Instance(value, born[value], dies[value]) for value in born]
    return tuple(sorted(done, key=lambda i: (i.born, i.value)))


def _given(graph: CostGraph) -> list[int]:
    """Return what the step is given but does not hold."""
    return [
        value.id
        for value in graph.values
        if graph.producer[value.id] is None and not value.resident
    ]


def _boundary(graph: CostGraph, order: tuple[int, ...]) -> int:
    """Return the first backward step, or the number of steps if there is none."""
    phases = (graph.ops[op].phase for op in order)
    backward = (i for i, phase in enumerate(phases) if phase is Phase.BACKWARD)
    return next(backward, len(order))


def _keep(values: Sequence[int], dies: dict[int, int], last: int) -> set[int]:
    """Extend the newest instances of `values` that exist to the end."""
    present = {value for value in values if value in dies}
    dies.update(dict.fromkeys(present, last))
    return present


def _unavailable(graph: CostGraph, position: int, index: int, value: int) -> NoReturn:
    msg = (
        f"steps[{position}] (op {index}, {graph.ops[index].name}) reads"
        f" {graph.describe(value)}, which no earlier step made"
    )
    raise InvalidPlanError(msg)


def _memory(
    graph: CostGraph, order: tuple[int, ...], instances: Sequence[Instance]
) -> tuple[int, ...]:
    change = [0] * (len(order) + 1)
    change[0] = graph.resident_bytes
    for instance in instances:
        size = graph.values[instance.value].bytes
        change[instance.born] += size
        change[instance.dies + 1] -= size
    live = accumulate(change[:-1])
    return tuple(
        held + graph.ops[op].workspace_bytes
        for held, op in zip(live, order, strict=True)
    )
