"""A chain of three layers, drawn and added up by hand, for the command line's tests.

```
 forward    x ─f1─> a1 ─f2─> a2 ─f3─> a3 ─loss─> l
 backward   g1 <─b2─ g2 <─b3─ g3 <─b1─ (a3, t)      b3 reads a2, b2 reads a1
```

Activations and gradients take 100 bytes, as does the resident input x, but g2 takes
101; the loss l and the tangent t take 4. A layer takes 10 ns, its backward 20 ns, the
loss and its backward 5 ns: 80 ns unplanned.

Unplanned, memory is highest at b1: x, a1, a2, a3, l, t and g3 make 508 bytes. No
schedule needs less than b3 does: x, l, a2, g3 and g2 make 405 bytes. There b1 can hold
neither a1 nor a2, so f1 and f2 run again before b3, and f1 once more before b2: 110 ns.
"""

from encamp import fingerprint
from encamp.graph import CostGraph, Kind, Op, Phase, Value
from encamp.plan import Certificate, Figures, GraphRef, Plan, SolverInfo, Status
from encamp.replay import breakdown, replay

UNPLANNED_PEAK = 508
SMALLEST = 405
SMALLEST_STEPS = (0, 1, 2, 3, 4, 0, 1, 5, 0, 6)


def chain():
    """Return the chain as a cost graph."""
    activations = [Value(i, 100, Kind.ACTIVATION) for i in (1, 2, 3)]
    return CostGraph(
        name="chain",
        values=(
            Value(0, 100, Kind.INPUT, resident=True, name="x"),
            *activations,
            Value(4, 4, Kind.ACTIVATION),
            Value(5, 4, Kind.TANGENT),
            *(
                Value(i, size, Kind.GRADIENT)
                for i, size in ((6, 100), (7, 101), (8, 100))
            ),
        ),
        ops=(
            _op(0, "f1", Phase.FORWARD, (0,), 1, 10),
            _op(1, "f2", Phase.FORWARD, (1,), 2, 10),
            _op(2, "f3", Phase.FORWARD, (2,), 3, 10),
            _op(3, "loss", Phase.FORWARD, (3,), 4, 5),
            _op(4, "b1", Phase.BACKWARD, (3, 5), 6, 5),
            _op(5, "b3", Phase.BACKWARD, (2, 6), 7, 20),
            _op(6, "b2", Phase.BACKWARD, (1, 7), 8, 20),
        ),
        outputs=(4, 8),
        meta={"costs": "by hand", "device_memory_bytes": 1000},
    )


def plan_of(graph, steps, budget):
    """Return a plan with these steps, whose bound is the unplanned duration."""
    planned, unplanned = replay(graph, steps), replay(graph)
    return Plan(
        graph=GraphRef(
            graph.name, fingerprint.structure(graph), fingerprint.exact(graph)
        ),
        budget_bytes=budget,
        status=Status.FEASIBLE,
        steps=tuple(steps),
        peak_bytes=planned.peak_bytes,
        duration_ns=planned.duration_ns,
        unplanned=Figures(unplanned.peak_bytes, unplanned.duration_ns),
        certificate=Certificate(unplanned.duration_ns, "every op runs once"),
        solver=SolverInfo("0.1.0", "9.15", seed=0, seconds=0.5),
        memory=breakdown(graph, planned),
    )


def _op(index, name, phase, inputs, output, duration):
    return Op(
        id=index,
        name=name,
        target=f"test.{name}",
        phase=phase,
        inputs=inputs,
        outputs=(output,),
        duration_ns=duration,
        module=f"layer{name[1]}" if name != "loss" else None,
    )
