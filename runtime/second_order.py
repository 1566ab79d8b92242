"""Refuse a backward of the backward, before the first one runs.

A planned step has one forward and one backward. `create_graph=True` asks for a graph
of that backward, too, which PyTorch would find missing only once it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.graph import Node

from encamp.errors import UnsupportedError
from encamp.tracer.joint import JointStep, nodes_of
from encamp.tracer.provenance import where

_PLANNED = "CompiledFunctionBackward"
"""How AOTAutograd's node of a compiled backward is named."""


def first_order_only(
    run: Callable[..., Any], name: str, joint: JointStep
) -> Callable[..., Any]:
    """Return `run`, a compiled graph, with a backward that refuses `create_graph`.

    Args:
        run: takes flat inputs and returns flat outputs.
        name: the step's, for a person.
        joint: the step's joint graph, to say where its backward begins.

    """
    message = _message(name, joint)

    def refuse_double(_: object) -> None:
        # The engine enables gradients in a backward only to build a graph of it.
        if torch.is_grad_enabled():
            raise UnsupportedError(message)

    def run_once(*inputs: Any) -> Any:  # noqa: ANN401 -- as the graph's
        outputs = run(*inputs)
        node = _planned_node(outputs)
        if node is not None:
            node.register_prehook(refuse_double)
        return outputs

    return run_once


def _planned_node(outputs: Iterable[object]) -> Node | None:
    """Return the node of the compiled backward behind the outputs, if there is one.

    An output that is a view has nodes of its own before it, in a chain.
    """
    for item in outputs:
        node = item.grad_fn if isinstance(item, torch.Tensor) else None
        while node is not None:
            if node.name() == _PLANNED:
                return node
            following = [later for later, _ in node.next_functions]
            node = following[0] if len(following) == 1 else None
    return None


def _message(name: str, joint: JointStep) -> str:
    first = nodes_of(joint.forward_outputs)[0]
    return (
        f"the backward of {name}, from {where(first)}, was asked for a graph of its own"
        " (create_graph=True, a double backward); Encamp plans one forward and one"
        " backward. Compute the inner gradient inside the step with torch.func.grad,"
        " which is planned with it, or run this step unplanned"
    )
