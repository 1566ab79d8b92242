"""Which nodes of a joint graph belong to the backward."""

from __future__ import annotations

from torch import fx

from .joint import JointStep, nodes_of

_TAG = "partitioner_tag"


def backward_nodes(joint: JointStep) -> set[fx.Node]:
    """Return the call nodes the forward does not need.

    The forward is what its outputs depend on, what must run in it (writes into its
    inputs, tagged so by AOTAutograd), and what has an effect of its own when it was
    traced in the forward (random draws, assertions). Linear in the graph.
    """
    forward = set(_ancestors(_forward_roots(joint)))
    return {
        node
        for node in joint.module.graph.nodes
        if node.op == "call_function" and node not in forward
    }


def _forward_roots(joint: JointStep) -> list[fx.Node]:
    roots = nodes_of(joint.forward_outputs)
    for node in joint.module.graph.nodes:
        tag = node.meta.get(_TAG)
        effect = node.op == "call_function" and node.is_impure()
        if tag == "must_be_in_forward" or (tag == "is_forward" and effect):
            roots.append(node)
    return roots


def _ancestors(roots: list[fx.Node]) -> set[fx.Node]:
    seen: set[fx.Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    return seen
