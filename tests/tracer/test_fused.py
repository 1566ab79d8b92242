"""The fused view: what pointwise operators make is never in memory, or it is."""

import torch
from torch import nn

from encamp.graph import CostGraph, Kind, Op, Phase, Value
from encamp.replay import replay
from encamp.tracer.calls import OpCall, OpCost
from encamp.tracer.fused import FusedCosts, Fusion, fused_view
from stepping import UnitCosts, lowered

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


def step():
    """Return a step whose second op makes much of little, pointwise.

    ```
    0: mm -> a (100)    1: exp a -> b (300)    2: sum b -> c (50)    3: mm c -> d (10)
    4: tangents -> t (1)    5: mul d b -> g (300)    6: mm g -> w (5, output)
    ```
    """
    sizes = (100, 300, 50, 10, 1, 300, 5)
    values = tuple(Value(i, size, Kind.ACTIVATION) for i, size in enumerate(sizes))
    rows = (
        ("aten.mm.default", FORWARD, ()),
        ("aten.exp.default", FORWARD, (0,)),
        ("aten.sum.default", FORWARD, (1,)),
        ("aten.mm.default", FORWARD, (2,)),
        ("encamp.tangents", BACKWARD, ()),
        ("aten.mul.Tensor", BACKWARD, (3, 1)),
        ("aten.mm.default", BACKWARD, (5,)),
    )
    ops = tuple(
        Op(i, f"op{i}", target, phase, reads, (i,), 10)
        for i, (target, phase, reads) in enumerate(rows)
    )
    graph = CostGraph("step", values, ops, (6,))
    return graph, Fusion(graph, frozenset({1, 5}), frozenset({1, 2, 5}))


def test_what_the_backward_reads_is_in_memory():
    """Kept, b is written in the forward; at op 5 it is there with d and g."""
    graph, fusion = step()

    assert replay(graph).peak_bytes == 300 + 10 + 300
    assert fusion.peak_bytes(range(7)) == 300 + 10 + 300


def test_what_runs_again_for_pointwise_readers_is_nowhere():
    """Run again, b is inside of c in the forward and of g in the backward.

    Then a lives on to op 5, which reads it for b: a, d and g are the peak. Operator
    by operator b would be there beside them.
    """
    graph, fusion = step()
    steps = (0, 1, 2, 3, 4, 1, 5, 6)

    assert replay(graph, steps).peak_bytes == 10 + 300 + 300
    assert fusion.peak_bytes(steps) == 100 + 10 + 300


def test_a_matrix_product_reads_from_memory():
    """Read by a product, the last pointwise value is in memory; g is, above."""
    graph, _ = step()
    nothing_fused = Fusion(graph, frozenset(), frozenset())

    for steps in (range(7), (0, 1, 2, 3, 4, 1, 5, 6)):
        assert nothing_fused.peak_bytes(steps) == replay(graph, steps).peak_bytes


class Recorded(UnitCosts):
    """Unit costs that remember what was asked."""

    def __init__(self):
        self.asked = []

    def costs(self, calls, progress=None):
        """Return 1000 ns for each call."""
        self.asked += [str(call.target) for call in calls]
        return super().costs(calls, progress)


def test_fused_operators_cost_their_traffic():
    """A thousand ns for three tensors of 4 MiB: 79 ns a megabyte, as integers go.

    The scaled input is read by the sine and by the product of the sine's backward
    alone, all fused: it moves nothing. The sine's result is read by a product.
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(512, 512))
            self.layer = nn.Linear(512, 8)

        def forward(self, x):
            return self.layer(torch.sin(x * self.scale)).sum()

    source = Recorded()
    costs = FusedCosts(source, torch.device("cpu"))
    call = OpCall(torch.ops.aten.sin.default, (torch.empty(4, device="meta"),))
    assert costs.costs([call]) == [OpCost(0)]
    assert source.asked == []
    rate = costs.ns_per_megabyte()
    assert rate == 1000 * 10**6 // (3 * 4 * 2**20)

    view, fusion = fused_view(lowered(Model(), (torch.rand(512, 512),)), rate)
    ops = {op.target: op for op in view.graph.ops}
    product, sine = ops["aten.mul.Tensor"], ops["aten.sin.default"]
    assert {product.id, sine.id} <= fusion.pointwise
    tensor = 512 * 512 * 4
    # The first mul of the graph is the forward's: two tensors in, none out.
    first = next(op for op in view.graph.ops if op.target == "aten.mul.Tensor")
    assert first.duration_ns == 2 * tensor * rate // 10**6
    assert sine.duration_ns == tensor * rate // 10**6
    assert ops["aten.addmm.default"].duration_ns == 1000
