"""The joint forward and backward graph of one training step, as captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import fx

from encamp.graph import Kind


@dataclass(frozen=True, slots=True)
class GivenInput:
    """What one input of the step is: its kind and, where known, its dotted name."""

    kind: Kind
    name: str | None = None


@dataclass(frozen=True, slots=True)
class JointStep:
    """A functionalised joint graph, as AOTAutograd hands it to a partitioner.

    Placeholders are the primals and then the tangents; the flat output holds
    `num_forward_outputs` forward outputs and then one gradient (or None) a primal.
    `inputs` says what each primal is, by its position.
    """

    module: fx.GraphModule
    num_forward_outputs: int
    inputs: Mapping[int, GivenInput] = field(default_factory=dict)

    @property
    def primals(self) -> list[fx.Node]:
        """The placeholders the forward is given."""
        return [n for n in self._placeholders() if not is_tangent(n)]

    @property
    def tangents(self) -> list[fx.Node]:
        """The placeholders for the gradients of the forward's outputs."""
        return [n for n in self._placeholders() if is_tangent(n)]

    @property
    def output(self) -> fx.Node:
        """The output node."""
        return self.module.graph.output_node()

    @property
    def forward_outputs(self) -> list[object]:
        """What the forward returns, in order; nodes, or constants as they are."""
        return list(_flat_output(self.output)[: self.num_forward_outputs])

    @property
    def backward_outputs(self) -> list[object]:
        """What the backward returns: one node or None for each primal."""
        return list(_flat_output(self.output)[self.num_forward_outputs :])

    def _placeholders(self) -> list[fx.Node]:
        return self.module.graph.find_nodes(op="placeholder")


def is_tangent(node: fx.Node) -> bool:
    """Whether a placeholder is a tangent; AOTAutograd says so in its name only."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def nodes_of(items: list[object]) -> list[fx.Node]:
    """Return those items that are nodes, in order."""
    return [item for item in items if isinstance(item, fx.Node)]


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """Return the fake tensors a node stands for, flattened, in order."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def _flat_output(node: fx.Node) -> list[object]:
    (items,) = node.args
    return list(items)  # type: ignore[arg-type]
