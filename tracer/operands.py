"""Real operands for a call that was traced with fake ones.

Shapes, strides, dtypes and devices are the call's own. Values are such that the call
is valid and takes its usual time: floats from a normal distribution (positive or in
[0, 1] where the operator needs that), indices spread over their range, other integers
zero, booleans at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from encamp.errors import CostError

from .call_text import concrete, describe, target_name
from .calls import OpCall
from .indices import index_bounds

_BLOCK = 2**20
"""Random numbers drawn for one tensor; a larger tensor repeats them."""

_POSITIVE_OPERATORS = {
    "aten::log", "aten::log2", "aten::log10", "aten::log1p", "aten::sqrt",
    "aten::rsqrt", "aten::pow", "aten::lgamma", "aten::digamma", "aten::multinomial",
}  # fmt: skip
_UNIT_OPERATORS = {
    "aten::bernoulli", "aten::binary_cross_entropy",
    "aten::binary_cross_entropy_backward", "aten::logit", "aten::logit_backward",
}  # fmt: skip
_POSITIVE_NAMES = {
    "running_var", "var", "rstd", "invstd", "save_invstd", "save_var", "total_weight",
    "reserve",
}  # fmt: skip

Operands = tuple[tuple[Any, ...], dict[str, Any]]


def named_operands(call: OpCall) -> Iterator[tuple[str, Any]]:
    """Yield the call's operands with their names in the operator's schema.

    Operands of a target without a schema are named by their position.
    """
    formals: list[str] = []
    if isinstance(call.target, OpOverload):
        formals = [a.name for a in call.target._schema.arguments]  # noqa: SLF001
    for position, value in enumerate(call.args):
        yield (formals[position] if position < len(formals) else str(position)), value
    yield from call.kwargs.items()


def materialise(call: OpCall, generator: torch.Generator) -> Operands:
    """Return real arguments for the call, drawn from the CPU `generator`.

    Raises:
        CostError: an operand has no dense storage, or is on no real device.

    """
    bounds = index_bounds(call.target, dict(named_operands(call)))
    made = {
        name: _real(call, name, value, bounds.get(name), generator)
        for name, value in named_operands(call)
    }
    values = list(made.values())
    return tuple(values[: len(call.args)]), {key: made[key] for key in call.kwargs}


def duplicate(operands: Operands) -> Operands:
    """Return the operands with storages of their own and the same values."""
    copied: Operands = tree_map(_copy, operands)
    return copied


def _copy(value: Any) -> Any:  # noqa: ANN401 -- any operand
    if not isinstance(value, torch.Tensor):
        return value
    empty = torch.empty(0, dtype=value.dtype, device=value.device)
    return empty.set_(
        value.untyped_storage().clone(),  # type: ignore[no-untyped-call]
        value.storage_offset(),
        value.shape,
        value.stride(),
    )


def _real(
    call: OpCall,
    name: str,
    value: Any,  # noqa: ANN401 -- any operand
    bound: int | tuple[int | None, ...] | None,
    generator: torch.Generator,
) -> Any:  # noqa: ANN401 -- any operand
    """Return an operand with its tensors made real; lists have a bound per item."""
    if isinstance(value, (list, tuple)):
        limits = bound if isinstance(bound, tuple) else (bound,) * len(value)
        items = zip(value, limits, strict=True)
        return [_real(call, name, item, limit, generator) for item, limit in items]
    if not isinstance(value, torch.Tensor):
        return concrete(value)
    _check_tensor(call, value)
    limit = bound if isinstance(bound, int) else None
    fill = _filler(call.target, name, value, limit)
    return _strided(value, fill, generator)


def _check_tensor(call: OpCall, tensor: torch.Tensor) -> None:
    if tensor.layout == torch.strided and tensor.device.type != "meta":
        return
    msg = (
        f"{describe(call)} has an operand that is not dense or is on the meta device;"
        " its cost can only come from a device table: costs='roofline:NAME'"
    )
    raise CostError(msg)


Filler = Callable[[int, torch.Generator], torch.Tensor]
"""Gives a number of values, on the CPU, of any dtype."""


def _filler(
    target: Callable[..., Any], name: str, tensor: torch.Tensor, bound: int | None
) -> Filler:
    """Return what makes the values of one operand."""
    if _is_random_state(target, name, tensor):
        return lambda _, __: torch.get_rng_state()
    if tensor.dtype == torch.bool:
        return lambda n, g: torch.rand(n, generator=g) < 0.5
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return lambda n, _: _spread(n, bound)
    operator = target_name(target).replace(".", "::", 1).split(".")[0]
    if operator in _UNIT_OPERATORS:
        return lambda n, g: torch.rand(n, generator=g)
    if operator in _POSITIVE_OPERATORS or name in _POSITIVE_NAMES:
        return lambda n, g: torch.rand(n, generator=g) + 0.5
    return lambda n, g: torch.randn(n, generator=g)


def _is_random_state(
    target: Callable[..., Any], name: str, tensor: torch.Tensor
) -> bool:
    """Whether the operand is the state of the CPU's random stream."""
    return (
        not isinstance(target, OpOverload)
        and name == "0"
        and tensor.dtype == torch.uint8
        and list(tensor.shape) == list(torch.get_rng_state().shape)
    )


def _spread(count: int, bound: int | None) -> torch.Tensor:
    """Return `count` indices below `bound`, spread over all of it; else zeros."""
    if not bound or bound < 0:
        return torch.zeros(count, dtype=torch.int64)
    # A stride prime to most sizes: neighbours land far apart, as real indices do.
    return (torch.arange(count, dtype=torch.int64) * 7919) % bound


def _strided(
    like: torch.Tensor, fill: Filler, generator: torch.Generator
) -> torch.Tensor:
    """Return a real tensor laid out as `like`, its storage no larger than needed."""
    shape = [concrete(size) for size in like.shape]
    strides = [concrete(stride) for stride in like.stride()]
    extent = 0
    if 0 not in shape:
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    block = fill(min(extent, _BLOCK), generator).to(like.dtype).to(like.device)
    storage = torch.empty(extent, dtype=like.dtype, device=like.device)
    for start in range(0, extent, _BLOCK):
        part = storage[start : start + _BLOCK]
        part.copy_(block[: part.numel()])
    return storage.as_strided(shape, strides)
