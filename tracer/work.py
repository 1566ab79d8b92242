"""How much a call computes and moves, from its shapes alone.

Operations come from PyTorch's own formulas (`torch.utils.flop_counter`: matrix
products, convolutions, attention), with two changes: CPU attention has formulas here,
and causal attention counts half, because kernels skip what is masked. Bytes are what
the call reads and writes, each element once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import (
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from encamp.errors import CostError

from .call_text import concrete, describe
from .calls import OpCall
from .operands import named_operands
from .randomness import random_state

_INDEXED_READS = {
    "aten::embedding", "aten::gather", "aten::index", "aten::_unsafe_index",
    "aten::index_select",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """Operations (multiplications and additions) in a type, and bytes moved."""

    operations: int
    kind: str
    bytes: int


def work_of(call: OpCall) -> Work:
    """Return what the call computes and moves; no operand is read.

    Raises:
        CostError: the operator does not run on fake tensors.

    """
    result = _fake_result(call)
    read = [t for t in tree_leaves((call.args, call.kwargs)) if _is_tensor(t)]
    written = [t for t in tree_leaves(result) if _is_tensor(t)]
    moved = sum(map(_bytes, written)) + _bytes_read(call, read, written)
    return Work(_operations(call, result), _kind(read or written), moved)


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _fake_result(call: OpCall) -> Any:  # noqa: ANN401 -- whatever it returns
    try:
        with _disable_current_modes(), torch.no_grad(), _mode_of(call):
            return call.target(*call.args, **call.kwargs)
    except Exception as error:
        msg = (
            f"cannot estimate {describe(call)}: it does not run on fake tensors:"
            f" {type(error).__name__}: {error}; give the operator a fake"
            " implementation (torch.library.register_fake), or measure it:"
            " costs='measured'"
        )
        raise CostError(msg) from error


def _mode_of(call: OpCall) -> AbstractContextManager[Any]:
    """Return the fake mode of the operands; none for what takes the random state.

    Taking it is a plain function of a device, which knows no fake tensors.
    """
    if call.target is random_state:
        return nullcontext()
    leaves = tree_leaves((call.args, call.kwargs))
    modes = [leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)]
    return modes[0] if modes else FakeTensorMode(allow_non_fake_inputs=True)


def _bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's distinct elements: a broadcast counts once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    lengths = [int(concrete(n)) for n, stride in sizes if n == 0 or stride != 0]
    return math.prod(lengths) * tensor.element_size()


def _bytes_read(
    call: OpCall, read: list[torch.Tensor], written: list[torch.Tensor]
) -> int:
    """Return the bytes read; a table is read only where indices point."""
    schema = getattr(call.target, "_schema", None)
    if schema is None or schema.name not in _INDEXED_READS or not read:
        return sum(map(_bytes, read))
    table, *others = read
    return min(_bytes(table), sum(map(_bytes, written))) + sum(map(_bytes, others))


def _kind(tensors: list[torch.Tensor]) -> str:
    """Return the name of the type the call computes in."""
    if not tensors:
        return "float32"
    name = str(tensors[0].dtype).removeprefix("torch.")
    return "float8" if name.startswith("float8") else name


def _operations(call: OpCall, result: Any) -> int:  # noqa: ANN401 -- as returned
    target = call.target
    packet = target.overloadpacket if isinstance(target, OpOverload) else target
    formula = _FORMULAS.get(str(packet)) or flop_registry.get(packet)
    if formula is None:
        return 0
    count = formula(*call.args, **call.kwargs, out_val=result)
    operands = dict(named_operands(call))
    return int(concrete(count)) // (2 if operands.get("is_causal") is True else 1)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: object,
    **__: object,
) -> int:
    shapes = (query.shape, key.shape, value.shape)
    return int(sdpa_flop_count(*shapes))  # type: ignore[no-untyped-call]


def _attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: object,
    **__: object,
) -> int:
    shapes = (grad_out.shape, query.shape, key.shape, value.shape)
    return int(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


_FORMULAS: dict[str, Callable[..., int]] = {
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
