"""What Inductor makes of a step: pointwise operators run inside of their readers.

A pointwise value that only pointwise operators and reductions of its own half of the
step read is never in memory: each reader computes it again from its inputs, which live
on until then. A step is costed and its peak told on that view: fused operators cost
the bytes that go in and out of memory, all others what they cost alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode

from encamp.graph import CostGraph, Op, Phase

from .calls import CostSource, OpCall, OpCost, Progress
from .lower import Lowered

_POINTWISE = (
    "prims.convert_element_type.", "prims.inductor_lookup_seed.",
    "prims.inductor_random.", "prims.iota.", "aten.full.", "aten.where.",
    "aten.clone.", "aten._to_copy.", "aten.embedding.", "aten.gather.",
)  # fmt: skip
_REDUCTIONS = (
    "aten.sum.", "aten.mean.", "aten.var.", "aten.var_mean.", "aten.amax.",
    "aten.amin.", "aten.max.", "aten.any.", "aten.argmax.",
)  # fmt: skip
_UNCOSTED = "prims.inductor_seeds."
"""Draws a handful of numbers; it runs nowhere but in Inductor's code."""

_REFERENCE = 2**20
"""Elements of the sum that tells how fast memory is."""


class FusedCosts:
    """Costs of the operators that Inductor does not fuse, by another cost source.

    Those that it does have none yet: see `fused_view`.
    """

    def __init__(self, source: CostSource, device: torch.device) -> None:
        """Ask `source` for what runs alone on `device`."""
        self._source = source
        self._device = device

    @property
    def meta(self) -> Mapping[str, str | int]:
        """What the graph records: the source's own account."""
        return self._source.meta

    def costs(
        self, calls: Sequence[OpCall], progress: Progress | None = None
    ) -> list[OpCost]:
        """Return the cost of each call, none for what is fused.

        Raises:
            CostError: a call cannot be costed.

        """
        alone = [call for call in calls if not _is_fused(call)]
        answers = iter(self._source.costs(alone, progress))
        return [OpCost(0) if _is_fused(call) else next(answers) for call in calls]

    def ns_per_megabyte(self) -> int:
        """Return how long a megabyte takes that goes in or out of memory."""
        with FakeTensorMode():
            tensor = torch.empty(_REFERENCE, device=self._device)
        call = OpCall(torch.ops.aten.add.Tensor, (tensor, tensor.clone()))
        (cost,) = self._source.costs([call])
        return max(1, cost.duration_ns * 10**6 // (3 * 4 * _REFERENCE))


def _is_fused(call: OpCall) -> bool:
    name = str(call.target)
    return name.startswith((_UNCOSTED, *_REDUCTIONS)) or _is_pointwise(call.target)


def _is_pointwise(target: object) -> bool:
    tagged = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    return tagged or str(target).startswith(_POINTWISE)


@dataclass(frozen=True, slots=True)
class Fusion:
    """Which ops of a graph have no output in memory of their own, and who reads so."""

    graph: CostGraph
    pointwise: frozenset[int]
    readers: frozenset[int]

    def peak_bytes(self, steps: Sequence[int]) -> int:
        """Return the peak of a schedule on the fused view; linear in its edges."""
        return _Walk(self, tuple(steps)).peak_bytes()


def fused_view(lowered: Lowered, ns_per_megabyte: int) -> tuple[Lowered, Fusion]:
    """Return the step with fused operators costed by their traffic, and its fusion."""
    graph = lowered.graph
    targets = [call.node.target for call in lowered.calls]
    pointwise = frozenset(
        op.id
        for op, target in zip(graph.ops, targets, strict=True)
        if _is_pointwise(target) and len(_sized(graph, op.outputs)) == 1
    )
    reductions = {op.id for op in graph.ops if op.target.startswith(_REDUCTIONS)}
    fusion = Fusion(graph, pointwise, pointwise | reductions)
    rate = _Traffic(fusion, ns_per_megabyte)
    ops = tuple(rate.costed(op) for op in graph.ops)
    costed = replace(graph, ops=ops)
    return replace(lowered, graph=costed), replace(fusion, graph=costed)


def _sized(graph: CostGraph, values: Sequence[int]) -> list[int]:
    return [value for value in values if graph.values[value].bytes]


class _Traffic:
    """Costs fused operators by the bytes that they read from and write to memory."""

    def __init__(self, fusion: Fusion, ns_per_megabyte: int) -> None:
        self._graph, self._rate = fusion.graph, ns_per_megabyte
        self._readers = fusion.readers
        read_by: dict[int, list[int]] = {}
        for op in self._graph.ops:
            for value in op.inputs:
                read_by.setdefault(value, []).append(op.id)
        outputs = set(self._graph.outputs)
        self._inside = {
            value
            for op in fusion.pointwise
            for value in self._graph.ops[op].outputs
            if value not in outputs
            and fusion.readers.issuperset(read_by.get(value, ()))
        }

    def costed(self, op: Op) -> Op:
        if op.id not in self._readers:
            return op
        moved = {v for v in (*op.inputs, *op.outputs) if v not in self._inside}
        size = sum(self._graph.values[value].bytes for value in moved)
        return replace(op, duration_ns=max(1, size * self._rate // 10**6))


@dataclass(slots=True)
class _Instance:
    """One run's copy of a value: when it is made, and by which steps it is read."""

    value: int
    born: int
    read_at: list[int]
    kept: bool = False


class _Walk:
    """Instances of a schedule, each with its readers, as Inductor's code has them."""

    def __init__(self, fusion: Fusion, steps: tuple[int, ...]) -> None:
        self._fusion, self._graph, self._steps = fusion, fusion.graph, steps
        phases = (self._graph.ops[op].phase for op in steps)
        backward = (i for i, phase in enumerate(phases) if phase is Phase.BACKWARD)
        self._boundary = next(backward, len(steps))
        self._instances: list[_Instance] = []
        self._newest: dict[int, _Instance] = {}
        for index, op in enumerate(steps):
            if index == self._boundary:
                self._keep_outputs(Phase.FORWARD)
            self._run(index, self._graph.ops[op])
        self._keep_outputs(Phase.BACKWARD)

    def peak_bytes(self) -> int:
        ends = self._ends()
        changes = [0] * (len(self._steps) + 1)
        for made in self._instances:
            if self._is_inside(made):
                continue
            size = self._graph.values[made.value].bytes
            reads = [ends[index] for index in made.read_at]
            last = len(self._steps) - 1 if made.kept else max([made.born, *reads])
            changes[made.born] += size
            changes[last + 1] -= size
        live = peak = 0
        for index, op in enumerate(self._steps):
            live += changes[index]
            peak = max(peak, live + self._graph.ops[op].workspace_bytes)
        return self._graph.resident_bytes + peak

    def _run(self, index: int, op: Op) -> None:
        for value in op.inputs:
            if value in self._newest:
                self._newest[value].read_at.append(index)
        for value in op.outputs:
            made = self._newest[value] = _Instance(value, index, [])
            self._instances.append(made)

    def _keep_outputs(self, phase: Phase) -> None:
        for value in self._graph.outputs:
            maker = self._graph.producer[value]
            if maker is not None and self._graph.ops[maker].phase is phase:
                self._newest[value].kept = True

    def _is_inside(self, made: _Instance) -> bool:
        """Whether the instance is computed by its readers and never in memory."""
        if made.kept or not made.read_at:
            return False
        if self._steps[made.born] not in self._fusion.pointwise:
            return False
        half = made.born >= self._boundary
        return all(
            (index >= self._boundary) == half
            and self._steps[index] in self._fusion.readers
            for index in made.read_at
        )

    def _ends(self) -> list[int]:
        """Return when each step has been computed: by its last reader, if inside."""
        ends = list(range(len(self._steps)))
        for made in reversed(self._instances):
            if self._graph.values[made.value].bytes and self._is_inside(made):
                last = max(ends[index] for index in made.read_at)
                ends[made.born] = max(ends[made.born], last)
        return ends
