"""A chain of layers, for smoke runs of the drivers that take graphs."""

from __future__ import annotations

from benchmarks.registry import Case, add_case
from encamp.graph import CostGraph, Kind, Op, Phase, Value

_LAYERS = 12


def layered(layers: int) -> CostGraph:
    """Return a forward of equal layers and its backward, which reads what it saved."""
    values = [Value(0, 100, Kind.INPUT, resident=True)]
    ops: list[Op] = []

    def add(phase: Phase, reads: tuple[int, ...], kind: Kind) -> int:
        values.append(Value(len(values), 100, kind))
        made = values[-1].id
        name = f"op{len(ops)}"
        ops.append(Op(len(ops), name, "benchmark.op", phase, reads, (made,), 10))
        return made

    saved = [0]
    for _ in range(layers):
        saved.append(add(Phase.FORWARD, (saved[-1],), Kind.ACTIVATION))
    gradient = saved[-1]
    for read in reversed(saved[:-1]):
        gradient = add(Phase.BACKWARD, (gradient, read), Kind.GRADIENT)
    return CostGraph("chain", tuple(values), tuple(ops), (gradient,))


def _chain() -> CostGraph:
    return layered(_LAYERS)


add_case(
    Case(
        "chain",
        f"{_LAYERS} equal layers",
        ("proofs", "published", "fixed-order", "ablation"),
        _chain,
        quick=True,
        full=False,
    )
)
