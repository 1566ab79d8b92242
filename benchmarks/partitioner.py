"""PyTorch's own partitioner on the same joint graph, judged by the same replay.

`min_cut_rematerialization_partition` splits the joint graph under an
`activation_memory_budget`. Its forward and backward are joined again to one graph,
every node in its place, and lowered like any captured step.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from encamp.graph import CostGraph
from encamp.replay import Timeline, replay
from encamp.tracer.calls import CostSource
from encamp.tracer.joint import JointStep, is_tangent
from encamp.tracer.lower import lower

SETTINGS = tuple(percent / 100 for percent in range(0, 101, 5))
"""Values of `activation_memory_budget` to try: 0.0 (keep little) to 1.0 (keep all)."""

_AGAIN = "encamp_benchmark_runs_again"


@dataclass(frozen=True, slots=True)
class StockStep:
    """The step that PyTorch runs at an `activation_memory_budget`.

    The graph's file order is PyTorch's own schedule; `again` are its ops that run a
    second time, which in this graph are ops of their own.
    """

    setting: float
    graph: CostGraph
    timeline: Timeline
    again: frozenset[int]

    @property
    def again_ns(self) -> int:
        """Duration of what runs again."""
        return sum(self.graph.ops[op].duration_ns for op in self.again)

    @property
    def drawn_again(self) -> int:
        """How many ops draw random numbers a second time, anew."""
        return sum(
            self.graph.ops[op].target == "encamp.random_state" for op in self.again
        )


def stock_step(joint: JointStep, setting: float, costs: CostSource) -> StockStep:
    """Partition a copy of a joint graph as PyTorch does and replay what it runs."""
    forward, backward = _partition(_private(joint), setting)
    joined = _joined(joint, forward, backward)
    lowered = lower(joined, costs, name=f"activation_memory_budget={setting}")
    again = (i for i, c in enumerate(lowered.calls) if c.node.meta.get(_AGAIN))
    graph = lowered.graph
    return StockStep(setting, graph, replay(graph), frozenset(again))


def merged_step(joint: JointStep) -> JointStep:
    """Return the step with equal calls made once, as PyTorch's partitioner does first.

    Encamp plans the step as it was captured. To compare plans, not graphs, the
    comparison gives Encamp the graph that PyTorch cuts.
    """
    graph = fx_graph_cse(joint.module.graph)
    module = fx.GraphModule(joint.module, graph)
    _propagate(module)
    return JointStep(module, joint.num_forward_outputs, joint.inputs)


def _private(joint: JointStep) -> JointStep:
    """Copy the graph, which the partitioner edits, and the tables of its nodes."""
    graph = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for node in joint.module.graph.nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta = copy.copy(node.meta)
    module = fx.GraphModule(joint.module, graph)
    return JointStep(module, joint.num_forward_outputs, joint.inputs)


def _partition(
    joint: JointStep, setting: float
) -> tuple[fx.GraphModule, fx.GraphModule]:
    fakes = [node.meta["val"] for node in joint.primals]
    tangents = [node.meta["val"] for node in joint.tangents]
    options = functorch_config.patch(activation_memory_budget=setting)
    with options, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return min_cut_rematerialization_partition(
            joint.module,
            (fakes, tangents),
            num_fwd_outputs=joint.num_forward_outputs,
            static_lifetime_input_indices=list(range(len(fakes))),
        )


def _joined(
    joint: JointStep, forward: fx.GraphModule, backward: fx.GraphModule
) -> JointStep:
    """Put the backward behind the forward, its saved tensors wired through."""
    graph = fx.Graph()
    count = joint.num_forward_outputs
    outputs, gradients = _returned(forward), _returned(backward)
    first = _copied(graph, forward, {})
    for node in graph.nodes:
        node.meta["partitioner_tag"] = "must_be_in_forward"
    given = [
        n for n in backward.graph.find_nodes(op="placeholder") if not is_tangent(n)
    ]
    saved = {n: first[o] for n, o in zip(given, outputs[count:], strict=True)}
    second = _copied(graph, backward, saved)
    names = {node.name for node in forward.graph.nodes}
    for node in backward.graph.nodes:
        if node in second and node not in saved:
            second[node].meta["partitioner_tag"] = "must_be_in_backward"
            second[node].meta[_AGAIN] = node.name in names
    kept = [first.get(o, o) for o in outputs[:count]]
    graph.output((*kept, *(second.get(g, g) for g in gradients)))
    module = fx.GraphModule(joint.module, graph)
    _propagate(module)
    return JointStep(module, count, joint.inputs)


def _returned(module: fx.GraphModule) -> list[Any]:
    """Return what a graph returns: nodes, or None where there is no gradient."""
    (returned,) = module.graph.output_node().args
    return list(returned)  # type: ignore[arg-type]


def _copied(
    graph: fx.Graph, module: fx.GraphModule, known: dict[fx.Node, fx.Node]
) -> dict[fx.Node, fx.Node]:
    made = dict(known)
    for node in module.graph.nodes:
        if node.op != "output" and node not in made:
            made[node] = graph.node_copy(node, made.__getitem__)
            made[node].meta = copy.copy(node.meta)
    return made


def _propagate(module: fx.GraphModule) -> None:
    """Give every node a storage of its own, or that of the node it views."""
    fakes = [n.meta["val"] for n in module.graph.find_nodes(op="placeholder")]
    mode = fakes[0].fake_mode
    FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fakes)
