"""A plan as a snapshot for PyTorch's memory viewer, pytorch.org/memory_viz.

It is what `torch.cuda.memory._dump_snapshot` writes of a step that was run: a pickle of
plain dicts, lists, tuples, strings and numbers, which the viewer's own reader takes.
What is held for the whole step has no event and lies at the bottom. Everything else is
placed at the first free address that fits it, as a simple allocator would, so that the
segment's size shows fragmentation too. The viewer's x axis counts events.
"""

from __future__ import annotations

import pickle
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from encamp.graph import CostGraph, Op
from encamp.plan import Plan
from encamp.replay import Instance, replay

_PROTOCOL = 4
_START = 2**32
"""An address that looks like one."""
Block = dict[str, Any]


def snapshot(graph: CostGraph, plan: Plan) -> bytes:
    """Return the snapshot of a plan's steps as the viewer reads it.

    Raises:
        InvalidPlanError: the plan has no steps, or cannot be replayed on the graph.

    """
    timeline = replay(graph, plan.steps)
    drawing = _Drawing(graph)
    starts = accumulate((graph.ops[op].duration_ns for op in timeline.steps), initial=0)
    born, gone = _by_step(timeline.instances)
    for step, (op, start) in enumerate(zip(timeline.steps, starts, strict=False)):
        drawing.free(gone[step - 1], start // 1000)
        drawing.allocate(born[step], graph.ops[op], start // 1000)
        drawing.use_workspace(graph.ops[op], start // 1000)
    document = {
        "segments": [drawing.segment()],
        "device_traces": [drawing.events],
        "allocator_settings": {},
        "external_annotations": [],
    }
    return pickle.dumps(document, protocol=_PROTOCOL)


def _by_step(
    instances: tuple[Instance, ...],
) -> tuple[dict[int, list[Instance]], dict[int, list[Instance]]]:
    born: dict[int, list[Instance]] = defaultdict(list)
    gone: dict[int, list[Instance]] = defaultdict(list)
    for instance in instances:
        born[instance.born].append(instance)
        gone[instance.dies].append(instance)
    return born, gone


@dataclass(slots=True)
class _Room:
    """Addresses: first fit among what was freed, else beyond what was ever used."""

    top: int = _START
    free: list[tuple[int, int]] = field(default_factory=list)

    def take(self, size: int) -> int:
        """Return the address of so many bytes."""
        for position, (start, room) in enumerate(self.free):
            if room >= size:
                rest = [(start + size, room - size)] if room > size else []
                self.free[position : position + 1] = rest
                return start
        start, self.top = self.top, self.top + size
        return start

    def give(self, start: int, size: int) -> None:
        """Free them, and join them with what is free beside them."""
        insort(self.free, (start, size))
        joined: list[tuple[int, int]] = []
        for address, room in self.free:
            if joined and sum(joined[-1]) == address:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            else:
                joined.append((address, room))
        self.free = joined


@dataclass(slots=True)
class _Drawing:
    """The events so far, and where everything lies."""

    graph: CostGraph
    room: _Room = field(default_factory=_Room)
    events: list[dict[str, Any]] = field(default_factory=list)
    held: dict[int, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    at: dict[Instance, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Place what is held for the whole step."""
        for value in self.graph.values:
            if value.resident and value.bytes:
                frames = [_frame(value.name or value.kind, None)]
                self.held[self.room.take(value.bytes)] = (value.bytes, frames)

    def allocate(self, born: list[Instance], op: Op, time_us: int) -> None:
        """Draw the values that a step makes, or that are there when it begins."""
        for instance in born:
            size = self.graph.values[instance.value].bytes
            if size:
                address = self.room.take(size)
                self.at[instance] = address
                made = self.graph.producer[instance.value] is not None
                name = op.name if made else self.graph.describe(instance.value)
                frames = [_frame(name, op.source if made else None)]
                self.held[address] = (size, frames)
                self._event("alloc", address, time_us)

    def free(self, gone: list[Instance], time_us: int) -> None:
        """Draw the end of values."""
        for instance in gone:
            if instance in self.at:
                self._let_go(self.at.pop(instance), time_us)

    def use_workspace(self, op: Op, time_us: int) -> None:
        """Draw what an op needs beside its values."""
        if op.workspace_bytes:
            address = self.room.take(op.workspace_bytes)
            frames = [_frame(f"workspace of {op.name}", op.source)]
            self.held[address] = (op.workspace_bytes, frames)
            self._event("alloc", address, time_us)
            self._let_go(address, time_us)

    def segment(self) -> dict[str, Any]:
        """Return the one segment that everything lies in, as it is at the end."""
        total = self.room.top - _START
        active = sum(size for size, _ in self.held.values())
        return {
            "device": 0,
            "address": _START,
            "total_size": total,
            "allocated_size": active,
            "active_size": active,
            "requested_size": active,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": [*self._blocks()],
        }

    def _blocks(self) -> Iterator[Block]:
        """Return the held and the free parts of the segment, in order."""
        parts = [(a, size, frames) for a, (size, frames) in self.held.items()]
        parts += [(a, size, []) for a, size in self.room.free]
        for address, size, frames in sorted(parts, key=lambda part: part[0]):
            yield {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated" if frames else "inactive",
                "frames": frames,
            }

    def _let_go(self, address: int, time_us: int) -> None:
        for action in ("free_requested", "free_completed"):
            self._event(action, address, time_us)
        size, _ = self.held.pop(address)
        self.room.give(address, size)

    def _event(self, action: str, address: int, time_us: int) -> None:
        size, frames = self.held[address]
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "frames": frames,
                "time_us": time_us,
            }
        )


def _frame(name: str, source: str | None) -> dict[str, Any]:
    """Return a line of a stack: the op's name where its module's source has it."""
    file, _, line = (source or "").rpartition(":")
    return {
        "filename": file or "encamp",
        "line": int(line) if line.isdecimal() else 0,
        "name": str(name),
    }
