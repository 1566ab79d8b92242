"""Which operations may run a second time, and which draw random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils.checkpoint import CheckpointPolicy

from encamp.graph import Reason

from .joint import tensors_of

_COLLECTIVES = ("_c10d_functional", "c10d_functional", "_dtensor", "c10d")
_PURE_NAMESPACES = ("aten", "prims")
_DROPOUT_ARGUMENT = "dropout_p"
_POLICY = "recompute"
"""Where a node carries the policy of the `torch.utils.checkpoint` around it."""


def reason_against(node: fx.Node) -> Reason | None:
    """Return why the call must not be repeated, or None where it may be.

    Only operators of PyTorch's own namespaces are taken to be functions of their
    arguments; any other (a custom operator, a higher-order one) is pinned. Where the
    model checkpoints with a policy, what it must save is pinned, too; what it would
    recompute is the plan's to decide.
    """
    target = node.target
    if not isinstance(target, OpOverload):
        return Reason.UNKNOWN_OP
    if node.meta.get(_POLICY) is CheckpointPolicy.MUST_SAVE:
        return Reason.USER
    if target.namespace in _COLLECTIVES:
        return Reason.COLLECTIVE
    against = {
        Reason.UNKNOWN_OP: target.namespace not in _PURE_NAMESPACES,
        Reason.HOST_SYNC: torch.Tag.data_dependent_output in target.tags,
        Reason.DATA_DEPENDENT: _shape_depends_on_data(node, target),
        Reason.IN_PLACE: target._schema.is_mutable,  # noqa: SLF001 -- stands only here
        Reason.RANDOM: draws_random(node) and (_has_generator(node) or _seeds(target)),
    }
    return next((reason for reason, holds in against.items() if holds), None)


def _shape_depends_on_data(node: fx.Node, target: OpOverload[..., Any]) -> bool:
    """Whether the values of the arguments decide how large the result is.

    Indexing carries the tag for its masks; with integer indices alone the shapes do.
    """
    if torch.Tag.dynamic_output_shape not in target.tags:
        return False
    if target is not torch.ops.aten.index.Tensor:
        return True
    masks = (torch.bool, torch.uint8)
    indices: list[fx.Node] = []
    fx.map_arg(argument(node, "indices"), indices.append)
    return any(t.dtype in masks for i in indices for t in tensors_of(i))


def draws_random(node: fx.Node) -> bool:
    """Whether the call advances the global random stream.

    Attention kernels carry the tag whatever their dropout; with none they draw
    nothing.
    """
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [a.name for a in target._schema.arguments]  # noqa: SLF001 -- see above
    return _DROPOUT_ARGUMENT not in names or argument(node, _DROPOUT_ARGUMENT) != 0


def argument(node: fx.Node, name: str) -> Any:  # noqa: ANN401 -- any schema type
    """Return an argument of an operator call by its schema name, or its default."""
    schema = node.target._schema  # type: ignore[union-attr]  # noqa: SLF001
    for position, formal in enumerate(schema.arguments):
        if formal.name == name:
            if position < len(node.args) and not formal.kwarg_only:
                return node.args[position]
            return node.kwargs.get(name, formal.default_value)
    msg = f"{node.target} has no argument {name!r}"
    raise KeyError(msg)


def written_nodes(node: fx.Node) -> list[fx.Node]:
    """Return the argument nodes that the call writes into."""
    target = node.target
    if not isinstance(target, OpOverload):
        return []
    written: list[fx.Node] = []
    for formal in target._schema.arguments:  # noqa: SLF001 -- see above
        if formal.alias_info is not None and formal.alias_info.is_write:
            fx.map_arg(argument(node, formal.name), written.append)
    return written


def _seeds(target: OpOverload[..., Any]) -> bool:
    """Whether the call draws the seeds of Inductor's own random kernels.

    They are few bytes and nothing but its code can draw them.
    """
    return str(target).startswith("prims.inductor_seeds.")


def _has_generator(node: fx.Node) -> bool:
    return node.kwargs.get("generator") is not None
