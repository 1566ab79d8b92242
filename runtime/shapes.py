"""The shapes of a step's inputs: fixed for each plan, whatever Dynamo would vary.

A plan is for fixed sizes. Where Dynamo has seen a size change it hands over a symbol;
asking for its number makes the compilation depend on that number, so that each shape
is compiled, and planned, for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from encamp.errors import UnsupportedError
from encamp.graph import Kind
from encamp.tracer.joint import GivenInput

from .options import OnNewShape

Shapes = tuple[tuple[int, ...], ...]


def fix_sizes(module: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Fix every symbolic size among the inputs at the number it has in this call.

    The inputs stay where they are; a size that was one becomes a constant of the graph.
    """
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, example_inputs, strict=True):
        if isinstance(value, torch.SymInt):
            node.replace_all_uses_with(int(value))
        elif isinstance(value, torch.Tensor):
            for size in (*value.shape, *value.stride(), value.storage_offset()):
                int(size)
    module.recompile()


@dataclass(slots=True)
class FirstShapes:
    """The shapes a step was first planned for, where no others are wanted."""

    policy: str
    shapes: Shapes | None = None

    def require(
        self, given: Mapping[int, GivenInput], example_inputs: Sequence[Any]
    ) -> None:
        """Refuse other shapes than the first ones, if so asked.

        Raises:
            UnsupportedError: the inputs have other shapes.

        """
        if self.policy != OnNewShape.ERROR:
            return
        met = _shapes(given, example_inputs)
        if self.shapes is None:
            self.shapes = met
        if met != self.shapes:
            msg = (
                f"the step was planned for inputs of the shapes {_text(self.shapes)}"
                f" and is called with {_text(met)}; pad them to the same shapes, or"
                " pass on_new_shape='replan' to plan each shape for itself"
            )
            raise UnsupportedError(msg)


def _shapes(given: Mapping[int, GivenInput], example_inputs: Sequence[Any]) -> Shapes:
    return tuple(
        tuple(int(size) for size in value.shape)
        for index, value in enumerate(example_inputs)
        if isinstance(value, torch.Tensor) and given[index].kind is Kind.INPUT
    )


def _text(shapes: Shapes) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
