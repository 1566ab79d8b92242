"""Which integer operands are indices, and what they must stay below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

from .call_text import concrete

Bound = int | tuple[int | None, ...]
"""An exclusive upper bound; for a list of index tensors one an item."""

Named = Mapping[str, Any]


def index_bounds(target: Callable[..., Any], operands: Named) -> dict[str, Bound]:
    """Return the bounds of the call's index operands, by operand name.

    An integer operand that is missing here holds no index, or of an operator that is
    not known: zero is valid for it.
    """
    if not isinstance(target, OpOverload):
        return {}
    rule = _RULES.get(target._schema.name.removeprefix("aten::"))  # noqa: SLF001
    return rule(operands) if rule else {}


def _size(tensor: torch.Tensor, dim: int) -> int:
    return int(concrete(tensor.shape[dim])) if tensor.dim() else 1


def _along_dim(operands: Named) -> dict[str, Bound]:
    """Bound the `index` of gather, scatter and their kin: along `dim` of `self`."""
    return {"index": _size(operands["self"], operands["dim"])}


def _rows(operands: Named) -> dict[str, Bound]:
    """Bound the `indices` of an embedding: they are rows of `weight`."""
    return {"indices": _size(operands["weight"], 0)}


def _table_rows(operands: Named) -> dict[str, Bound]:
    """Bound the `indices` of an embedding's backward: the table has `num_weights`."""
    return {"indices": int(concrete(operands["num_weights"]))}


def _classes(operands: Named) -> dict[str, Bound]:
    """Bound the `target` of a likelihood: classes are dimension 1, or 0 of a vector."""
    scores = operands["self"]
    return {"target": _size(scores, min(1, scores.dim() - 1))}


def _indexed(operands: Named) -> dict[str, Bound]:
    """Bound each tensor of `indices`: it counts along its own dimension of `self`."""
    shape = operands["self"].shape
    limits: list[int | None] = []
    dim = 0
    for index in operands["indices"]:
        is_mask = index is not None and index.dtype in {torch.bool, torch.uint8}
        counts = index is not None and not is_mask
        limits.append(int(concrete(shape[dim])) if counts else None)
        dim += index.dim() if is_mask else 1
    return {"indices": tuple(limits)}


def _flat(operands: Named) -> dict[str, Bound]:
    """Bound the `index` of take and put: it counts over all elements of `self`."""
    return {"index": int(concrete(operands["self"].numel()))}


def _pooled(dims: int) -> Callable[[Named], dict[str, Bound]]:
    """Bound the `indices` of a max pooling: they count over a plane of `self`."""

    def rule(operands: Named) -> dict[str, Bound]:
        plane = 1
        for size in operands["self"].shape[-dims:]:
            plane *= int(concrete(size))
        return {"indices": plane}

    return rule


def _encoded(operands: Named) -> dict[str, Bound]:
    """Bound the classes that a one-hot encoding is given: below `num_classes`."""
    return {"self": int(concrete(operands.get("num_classes", -1)))}


_ALONG_DIM = (
    "gather", "index_select", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce", "scatter_reduce_", "index_add", "index_add_", "index_copy",
    "index_copy_", "index_fill", "index_fill_", "index_reduce", "index_reduce_",
)  # fmt: skip
_INDEXED = (
    "index", "index_put", "index_put_", "_index_put_impl", "_index_put_impl_",
    "_unsafe_index", "_unsafe_index_put", "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate",
)  # fmt: skip
_LIKELIHOODS = (
    "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward",
    "nll_loss2d_backward", "multi_margin_loss", "multi_margin_loss_backward",
)  # fmt: skip

_RULES: dict[str, Callable[[Named], dict[str, Bound]]] = {
    **dict.fromkeys(_ALONG_DIM, _along_dim),
    **dict.fromkeys(_INDEXED, _indexed),
    **dict.fromkeys(_LIKELIHOODS, _classes),
    **dict.fromkeys(("embedding", "_embedding_bag"), _rows),
    **dict.fromkeys(("embedding_dense_backward",), _table_rows),
    **dict.fromkeys(("take", "put", "put_"), _flat),
    "adaptive_max_pool2d_backward": _pooled(2),
    "adaptive_max_pool3d_backward": _pooled(3),
    "max_pool2d_with_indices_backward": _pooled(2),
    "max_pool3d_with_indices_backward": _pooled(3),
    "one_hot": _encoded,
}
