"""What `encamp show GRAPH` tells about a graph."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from encamp.graph import CostGraph, Op, Phase, Reason
from encamp.replay import Timeline, breakdown, replay
from encamp.units import format_bytes, format_duration

from .output import count, fields, table

_LARGEST = 8


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A value that is live at the peak."""

    name: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PeakOp:
    """The op at which the unplanned step holds the most memory."""

    op: str
    phase: str
    module: str | None
    source: str | None


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """A graph in figures; `pinned` counts by reason the ops that run once only.

    `random` counts the ops that draw random numbers. `live` are the largest values
    live at the peak, resident ones left out; `memory` itemises the peak.
    """

    name: str
    meta: dict[str, str | int]
    forward_ops: int
    backward_ops: int
    values: int
    resident_bytes: int
    duration_ns: int
    peak_bytes: int
    peak: PeakOp
    memory: dict[str, int]
    live: tuple[LiveValue, ...]
    num_live: int
    pinned: dict[str, int]
    random: int


def summarise_graph(graph: CostGraph) -> GraphSummary:
    """Replay the unplanned step and return its figures; linear in the graph."""
    timeline = replay(graph)
    live = [v for v in timeline.live(timeline.peak_step) if graph.values[v].bytes]
    forward = graph.num_forward
    return GraphSummary(
        name=graph.name,
        meta=dict(graph.meta),
        forward_ops=forward,
        backward_ops=len(graph.ops) - forward,
        values=len(graph.values),
        resident_bytes=graph.resident_bytes,
        duration_ns=timeline.duration_ns,
        peak_bytes=timeline.peak_bytes,
        peak=_peak_op(graph, timeline),
        memory=breakdown(graph, timeline),
        live=_largest(graph, live),
        num_live=len(live),
        pinned=_pinned(graph),
        random=len(random_ops(graph)),
    )


def random_ops(graph: CostGraph) -> list[Op]:
    """Return the ops that draw random numbers.

    A draw either reads a random state, the output of an op that takes it, so that it
    can be replayed; or it is pinned for being random. Linear in the graph.
    """
    states = {value for op in graph.ops if _takes_state(op) for value in op.outputs}
    return [
        op
        for op in graph.ops
        if not states.isdisjoint(op.inputs)
        or (op.recompute.reason is Reason.RANDOM and not _takes_state(op))
    ]


def graph_lines(summary: GraphSummary) -> list[str]:
    """Return the summary for people."""
    return [
        summary.name,
        *fields(_figures(summary)),
        "",
        "memory at the peak",
        *memory_lines(summary.memory),
        "",
        f"largest of {count(summary.num_live, 'value')} that the peak adds",
        *table(
            [(format_bytes(v.bytes), v.kind, v.name) for v in summary.live], right=">"
        ),
        *_pinned_lines(summary.pinned),
    ]


def memory_lines(memory: dict[str, int]) -> list[str]:
    """Return an itemised peak, largest item first, zeros left out."""
    items = sorted(memory.items(), key=lambda item: -item[1])
    return table([(kind, format_bytes(size)) for kind, size in items if size])


def _takes_state(op: Op) -> bool:
    return op.target == "encamp.random_state"


def _peak_op(graph: CostGraph, timeline: Timeline) -> PeakOp:
    op = graph.ops[timeline.steps[timeline.peak_step]]
    return PeakOp(op.name, op.phase, op.module, op.source)


def _largest(graph: CostGraph, live: list[int]) -> tuple[LiveValue, ...]:
    ranked = sorted(live, key=lambda v: -graph.values[v].bytes)[:_LARGEST]
    values = [graph.values[v] for v in ranked]
    return tuple(LiveValue(graph.describe(v.id), v.kind, v.bytes) for v in values)


def _pinned(graph: CostGraph) -> dict[str, int]:
    reasons = Counter(op.recompute.reason for op in graph.ops)
    return {str(why): n for why, n in reasons.most_common() if why is not None}


def _figures(summary: GraphSummary) -> list[tuple[str, str]]:
    peak = summary.peak
    where = " ".join(filter(None, (peak.module and f"in {peak.module}", _at(peak))))
    return [
        *(_meta(key, value) for key, value in summary.meta.items()),
        ("ops", _ops(summary)),
        ("values", f"{summary.values:,}"),
        ("resident", format_bytes(summary.resident_bytes)),
        ("unplanned step", format_duration(summary.duration_ns)),
        ("unplanned peak", format_bytes(summary.peak_bytes)),
        ("peak at", f"{peak.op} ({peak.phase}) {where}".rstrip()),
    ]


def _ops(summary: GraphSummary) -> str:
    forward, backward = summary.forward_ops, summary.backward_ops
    return (
        f"{forward + backward:,} ({forward:,} {Phase.FORWARD},"
        f" {backward:,} {Phase.BACKWARD}); {sum(summary.pinned.values()):,} pinned,"
        f" {summary.random:,} random"
    )


def _meta(key: str, value: str | int) -> tuple[str, str]:
    label = key.removesuffix("_bytes").replace("_", " ")
    is_size = key.endswith("_bytes") and isinstance(value, int)
    return label, format_bytes(int(value)) if is_size else str(value)


def _at(peak: PeakOp) -> str | None:
    return f"at {peak.source}" if peak.source else None


def _pinned_lines(pinned: dict[str, int]) -> list[str]:
    if not pinned:
        return []
    return [
        "",
        "ops that run once only, by reason",
        *table([(reason, f"{number:,}") for reason, number in pinned.items()]),
    ]
