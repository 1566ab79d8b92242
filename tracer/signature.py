"""Canonical texts of an operator call, for the fingerprints.

`arguments_of` feeds the structure fingerprint: what stays when the batch grows or
the precision changes. `layout_of` feeds the exact one: shapes, strides and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from .joint import tensors_of

_STRUCTURAL = {
    "IntType",
    "FloatType",
    "BoolType",
    "StringType",
    "NumberType",
    "TensorType",
}


def arguments_of(node: fx.Node, is_view: Callable[[fx.Node], bool]) -> str:
    """Return the call's scalar arguments and the views it reads through.

    Sizes are left out (arguments the schema types as SymInt), as are dtypes and
    devices, so that the same model at another batch size or precision gives the same
    text. `is_view` tells which of the input nodes own no storage.
    """
    chains = (
        f"{position}<{_chain(source, is_view)}"
        for position, source in enumerate(node.all_input_nodes)
        if is_view(source)
    )
    return ";".join((*_scalars(node), *chains))


def layout_of(node: fx.Node) -> str:
    """Return shape, stride and dtype of every operand and result."""
    read = [_tensor_text(t) for i in node.all_input_nodes for t in tensors_of(i)]
    made = [_tensor_text(t) for t in tensors_of(node)]
    return ",".join(read) + "->" + ",".join(made)


def _chain(node: fx.Node, is_view: Callable[[fx.Node], bool]) -> str:
    steps = []
    while is_view(node):
        steps.append(f"{_short(node.target)}({','.join(_scalars(node))})")
        node = node.all_input_nodes[0]
    return "<".join(steps)


def _short(target: object) -> str:
    return target.__name__ if callable(target) and hasattr(target, "__name__") else ""


def _scalars(node: fx.Node) -> Iterator[str]:
    target = node.target
    if not isinstance(target, OpOverload):
        return
    formals = target._schema.arguments  # noqa: SLF001 -- no public schema access
    for formal, value in zip(formals, node.args, strict=False):
        yield from _scalar(node, formal, value)
    by_name = {formal.name: formal for formal in formals}
    for name in sorted(node.kwargs):
        yield from _scalar(node, by_name[name], node.kwargs[name])


def _scalar(node: fx.Node, formal: Any, value: object) -> Iterator[str]:  # noqa: ANN401
    if _leaf_kind(formal.real_type) not in _STRUCTURAL:
        return
    if not (_has_node(value) or value is None or _is_count(node, value)):
        yield f"{formal.name}={_plain(value)}"


def _leaf_kind(formal_type: Any) -> str:  # noqa: ANN401 -- a type of TorchScript
    while hasattr(formal_type, "getElementType"):
        formal_type = formal_type.getElementType()
    return str(formal_type.kind())


def _has_node(value: object) -> bool:
    return any(isinstance(leaf, fx.Node) for leaf in tree_leaves(value))


def _is_count(node: fx.Node, value: object) -> bool:
    """Whether a number is a size in disguise.

    The divisor of a mean is how often its input repeats in the output; the end of an
    `arange` is how many elements it makes.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 1:
        return False
    made = [t.numel() for t in tensors_of(node)]
    read = [
        t.untyped_storage().nbytes() // t.element_size()
        for i in node.all_input_nodes
        for t in tensors_of(i)
    ]
    return bool(made) and any(value * n == made[0] for n in read or [1])


def _plain(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_plain(item) for item in value) + "]"
    return repr(float(value)) if isinstance(value, float) else repr(value)


def _tensor_text(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    offset = tensor.storage_offset()
    suffix = f"+{offset}" if offset else ""
    return f"{dtype}{list(tensor.shape)}{list(tensor.stride())}{suffix}"
