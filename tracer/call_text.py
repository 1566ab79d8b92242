"""One operator call as text: what a measured cost is filed under and errors show."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from encamp.errors import CostError

from .calls import OpCall

_PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.layout)
_PLAIN_TOO = (torch.device, torch.memory_format)


def target_name(target: Callable[..., Any]) -> str:
    """Return an operator's name, e.g. "aten.mm.default"."""
    if isinstance(target, OpOverload):
        return str(target)
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target._name}"  # noqa: SLF001 -- as the class prints it
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return f"{target.__module__}.{name}"


def describe(call: OpCall) -> str:
    """Return the call's signature: equal for calls that cost the same.

    A tensor is its dtype, shape, strides and device kind; where its storage lies and
    what it shares it with is left out.

    >>> x = torch.ones(2, 3)
    >>> describe(OpCall(torch.ops.aten.sum.dim_IntList, (x, [0], True)))
    'aten.sum.dim_IntList(float32[2, 3][3, 1]@cpu, [0], True)'

    Raises:
        CostError: an operand is neither a tensor nor plain data.

    """
    name = target_name(call.target)
    operands = [_text(value, name) for value in call.args]
    operands += [
        f"{key}={_text(call.kwargs[key], name)}" for key in sorted(call.kwargs)
    ]
    return f"{name}({', '.join(operands)})"


def digest(description: str) -> str:
    """Return what a description is filed under."""
    return hashlib.sha256(description.encode()).hexdigest()


def concrete(value: Any) -> Any:  # noqa: ANN401 -- any operand
    """Return a size as a plain integer: a symbolic one is its hint.

    Raises:
        CostError: a symbolic size is known only when the step runs.

    """
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    hint = value.node.hint
    if hint is None:
        msg = (
            f"size {value} is known only when the step runs, so what depends on it has"
            " no cost; trace the step with fixed sizes"
        )
        raise CostError(msg)
    return hint


def _text(value: Any, name: str) -> str:  # noqa: ANN401 -- any operand
    value = concrete(value)
    if isinstance(value, torch.Tensor):
        return _tensor_text(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(item, name) for item in value)}]"
    if isinstance(value, OpOverload):
        return target_name(value)
    if isinstance(value, (*_PLAIN, *_PLAIN_TOO)):
        return repr(value) if isinstance(value, str) else str(value)
    msg = (
        f"{name} takes an operand of type {type(value).__qualname__}, which Encamp can"
        " neither describe nor make up, so this call cannot be costed on its own"
    )
    raise CostError(msg)


def _tensor_text(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return f"{dtype}{[concrete(s) for s in tensor.shape]}{layout}"
    shape = [concrete(size) for size in tensor.shape]
    strides = [concrete(stride) for stride in tensor.stride()]
    return f"{dtype}{shape}{strides}@{tensor.device.type}"
