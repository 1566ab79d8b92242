"""Small graphs made by hand, with peaks a reader can derive, and plans of them."""

from collections.abc import Sequence
from dataclasses import replace

from encamp import fingerprint
from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value
from encamp.plan import Certificate, Figures, GraphRef, Plan, SolverInfo, Status
from encamp.replay import breakdown, replay

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


def chain() -> CostGraph:
    """Return three forward ops and their backward, sizes in bytes in brackets.

    ```
     x (1, resident) ─> 0 ─> a (10) ─> 1 ─> b (20) ─> 2 ─> loss (1, output)
           │                   │              │       t (1, tangent)
           v                   v              v       v
      5 <──┴── ga (10) <── 4 <─┴── gb (20) <──┴── 3 <─┘
      └─> gw (5, output)
    ```

    | step    | live beside x            | bytes  |
    |---------|--------------------------|--------|
    | 0       | t a                      | 12     |
    | 1       | t a b                    | 32     |
    | 2       | t a b loss               | 33     |
    | 3       | t a b loss gb            | **53** |
    | 4       | a loss gb ga             | 42     |
    | 5       | loss ga gw               | 17     |
    """
    values = (
        Value(0, 1, Kind.INPUT, resident=True, name="x"),
        Value(1, 10, Kind.ACTIVATION),
        Value(2, 20, Kind.ACTIVATION),
        Value(3, 1, Kind.ACTIVATION),
        Value(4, 1, Kind.TANGENT, name="t"),
        Value(5, 20, Kind.GRADIENT),
        Value(6, 10, Kind.GRADIENT),
        Value(7, 5, Kind.GRADIENT),
    )
    ops = (
        Op(0, "first", "aten.mm.default", FORWARD, (0,), (1,), 100, module="net.0"),
        Op(1, "second", "aten.relu.default", FORWARD, (1,), (2,), 200, source="n.py:2"),
        Op(2, "third", "aten.sum.default", FORWARD, (2,), (3,), 300),
        Op(3, "third_back", "aten.expand.default", BACKWARD, (4, 2), (5,), 400),
        Op(4, "second_back", "aten.mul.Tensor", BACKWARD, (5, 1), (6,), 500),
        Op(5, "first_back", "aten.mm.default", BACKWARD, (6, 0), (7,), 600),
    )
    return CostGraph("chain", values, ops, (3, 7), {"torch": "2.13.0", "threads": 2})


CHAIN_PEAK = 53
CHAIN_DURATION = 2100
CHAIN_RECOMPUTED = (0, 1, 2, 3, 0, 4, 5)
"""Drops `a` after step 1 and makes it again; then 43 bytes at step 3 are the peak."""
CHAIN_RECOMPUTED_PEAK = 43


def noisy() -> CostGraph:
    """Return a step with two outputs of one op, a pinned op, a token, a workspace.

    ```
     x (4, resident) ─> 0 draws: mask (1), y (8), token (0)     pinned: random
     y, token ──────> 1: z (8, output)                          workspace 16
     z, mask ───────> 2 backward: g (2, output)
    ```

    | step | live beside x | workspace | bytes |
    |------|---------------|-----------|-------|
    | 0    | mask y token  |           | 13    |
    | 1    | mask y token z| 16        | **37**|
    | 2    | mask z g      |           | 15    |
    """
    values = (
        Value(0, 4, Kind.INPUT, resident=True),
        Value(1, 1, Kind.ACTIVATION),
        Value(2, 8, Kind.ACTIVATION),
        Value(3, 0, Kind.ACTIVATION),
        Value(4, 8, Kind.ACTIVATION),
        Value(5, 2, Kind.GRADIENT),
    )
    pinned = Recompute(allowed=False, reason=Reason.RANDOM)
    ops = (
        Op(
            0,
            "drop",
            "aten.native_dropout.default",
            FORWARD,
            (0,),
            (1, 2, 3),
            5,
            recompute=pinned,
            arguments="0.1,True",
        ),
        Op(
            1,
            "conv",
            "aten.convolution.default",
            FORWARD,
            (2, 3),
            (4,),
            7,
            workspace_bytes=16,
            spread_ns=1,
            layout="f32[2]",
        ),
        Op(2, "conv_back", "aten.mul.Tensor", BACKWARD, (4, 1), (5,), 9),
    )
    return CostGraph("noisy", values, ops, (4, 5))


NOISY_PEAK = 37


def with_op(graph: CostGraph, index: int, **changes: object) -> CostGraph:
    """Return the graph with fields of one op changed."""
    ops = list(graph.ops)
    ops[index] = replace(ops[index], **changes)
    return replace(graph, ops=tuple(ops))


def with_value(graph: CostGraph, index: int, **changes: object) -> CostGraph:
    """Return the graph with fields of one value changed."""
    values = list(graph.values)
    values[index] = replace(values[index], **changes)
    return replace(graph, values=tuple(values))


def renumbered(graph: CostGraph, numbers: Sequence[int]) -> CostGraph:
    """Return the graph with value `v` called `numbers[v]`, a permutation."""
    values = sorted(
        (replace(value, id=numbers[value.id]) for value in graph.values),
        key=lambda value: value.id,
    )
    ops = tuple(
        replace(
            op,
            inputs=tuple(numbers[v] for v in op.inputs),
            outputs=tuple(numbers[v] for v in op.outputs),
        )
        for op in graph.ops
    )
    outputs = tuple(numbers[v] for v in graph.outputs)
    return replace(graph, values=tuple(values), ops=ops, outputs=outputs)


def plan_of(
    graph: CostGraph, order: Sequence[int] | None = None, **changes: object
) -> Plan:
    """Return a true plan of a schedule; `changes` make it say something else."""
    unplanned, timeline = replay(graph), replay(graph, order)
    plan = Plan(
        graph=GraphRef(
            graph.name, fingerprint.structure(graph), fingerprint.exact(graph)
        ),
        budget_bytes=timeline.peak_bytes,
        status=Status.FEASIBLE,
        steps=timeline.steps,
        peak_bytes=timeline.peak_bytes,
        duration_ns=timeline.duration_ns,
        unplanned=Figures(unplanned.peak_bytes, unplanned.duration_ns),
        certificate=Certificate(unplanned.duration_ns, "every op once"),
        solver=SolverInfo("0.1.0", "9.15", seed=0, seconds=0.5, stages=("cut",)),
        memory=breakdown(graph, timeline),
        outline=fingerprint.outline(graph),
    )
    return replace(plan, **changes)


def unsolved_plan(graph: CostGraph, status: Status) -> Plan:
    """Return the answer that no schedule was found."""
    return plan_of(
        graph, status=status, steps=(), peak_bytes=0, duration_ns=0, memory={}
    )
