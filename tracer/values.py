"""The values of a step while it is lowered: one for each storage, plus tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import fx

from encamp.errors import UnsupportedError
from encamp.graph import Kind, Value

from .joint import GivenInput, tensors_of
from .provenance import where

_COPY_WHOLE_STORAGE = frozenset(
    {
        torch.ops.aten.copy.default,
        torch.ops.aten.slice_scatter.default,
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.diagonal_scatter.default,
        torch.ops.aten.as_strided_scatter.default,
    }
)
"""In-place ops made functional: they copy the storage of their first argument whole."""

_KEEP_EVERY_LOSS = frozenset(
    {
        torch.ops.aten.mse_loss.default,
        torch.ops.aten.smooth_l1_loss.default,
        torch.ops.aten.binary_cross_entropy.default,
        torch.ops.aten.soft_margin_loss.default,
    }
)
"""Losses whose kernels write the loss of each element and then shrink that tensor to
its mean or sum, storage and all: a scalar that holds as much as the input."""

_STATIC = (
    "a plan is made for fixed sizes: compile with torch.compile(..., dynamic=False)"
    " and give every step the same shapes"
)

_SYMBOLIC = f"depends on a symbolic size; {_STATIC}"
_ON_HOST = (
    "reads the value of a tensor on the host (.item(), int(), float()), which no plan"
    " can foresee; leave that to what uses the step's outputs"
)


@dataclass(slots=True)
class ValueTable:
    """Numbers storages in order of appearance.

    Storages are told apart by identity, so the table keeps them alive.
    """

    values: list[Value] = field(default_factory=list)
    _by_storage: dict[int, int] = field(default_factory=dict)
    _storages: list[torch.UntypedStorage] = field(default_factory=list)

    def find(self, tensor: torch.Tensor) -> int | None:
        """Return the value of a tensor's storage, or None where it is new."""
        return self._by_storage.get(storage_key(tensor))

    def of(self, node: fx.Node) -> list[int]:
        """Return the values of a node's tensors, in order; all are known."""
        return [self._by_storage[storage_key(t)] for t in plain_tensors(node)]

    def add(
        self, tensor: torch.Tensor, given: GivenInput, *, resident: bool = False
    ) -> int:
        """Return the value of a tensor's storage, making it where it is new."""
        known = self.find(tensor)
        if known is not None:
            return known
        return self._add(
            tensor, tensor.untyped_storage().nbytes(), given, resident=resident
        )

    def add_made(self, node: fx.Node, tensor: torch.Tensor, given: GivenInput) -> int:
        """Make the value of a new storage that a call returns."""
        return self._add(tensor, self._made_bytes(node, tensor), given, resident=False)

    def _made_bytes(self, node: fx.Node, tensor: torch.Tensor) -> int:
        """Return what the call allocates for a tensor.

        A fake tensor ends behind its last element, or not, as FakeTensorMode's cache
        has it; where a kernel copies a storage whole, the storage says. Some losses
        keep more than they return.
        """
        if node.target in _COPY_WHOLE_STORAGE:
            (source,) = tensors_of(node.all_input_nodes[0])
            if not _shares_elements(source):
                return self.values[self._by_storage[storage_key(source)]].bytes
        if node.target in _KEEP_EVERY_LOSS:
            read = [tensors_of(source)[0] for source in node.all_input_nodes[:2]]
            shape: torch.Size = torch.broadcast_shapes(*(t.shape for t in read))  # type: ignore[no-untyped-call]
            return shape.numel() * tensor.element_size()
        return tensor.untyped_storage().nbytes()

    def _add(
        self, tensor: torch.Tensor, size: int, given: GivenInput, *, resident: bool
    ) -> int:
        value = self.new(size, given, resident=resident)
        self._by_storage[storage_key(tensor)] = value
        self._storages.append(tensor.untyped_storage())
        return value

    def new(self, size: int, given: GivenInput, *, resident: bool = False) -> int:
        """Make a value that is no storage of the joint graph: a token or a state."""
        value = Value(len(self.values), size, given.kind, resident, given.name)
        self.values.append(value)
        return value.id

    def token(self, name: str) -> int:
        """Make a zero-byte value that only orders ops."""
        return self.new(0, GivenInput(Kind.ACTIVATION, name))


def storage_key(tensor: torch.Tensor) -> int:
    """Return what tells one storage from another while both are alive."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 -- no public identity


def _shares_elements(tensor: torch.Tensor) -> bool:
    """Whether elements of an expanded tensor are one: its copy spreads them out."""
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    return any(size > 1 and stride == 0 for size, stride in dimensions)


def plain_tensors(node: fx.Node) -> list[torch.Tensor]:
    """Return a node's tensors.

    Raises:
        UnsupportedError: one has a symbolic size or no plain strided storage.

    """
    value = node.meta.get("val")
    items = value if isinstance(value, (tuple, list)) else [value]
    if any(_is_open(item) for item in items):
        msg = f"{where(node)} {_ON_HOST if _reads_value(node) else _SYMBOLIC}"
        raise UnsupportedError(msg)
    tensors = tensors_of(node)
    for tensor in tensors:
        _require_plain(node, tensor)
    return tensors


def _reads_value(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.data_dependent_output in tags


def _is_open(item: object) -> bool:
    """Whether a number is symbolic and not fixed by the guards of its compilation."""
    if not isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return not item.node.expr.is_number


def _require_plain(node: fx.Node, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        msg = (
            f"{where(node)} makes a tensor of layout {tensor.layout} that has no plain"
            " storage; Encamp plans strided tensors only"
        )
        raise UnsupportedError(msg)
    if any(isinstance(size, torch.SymInt) for size in tensor.shape):
        msg = f"{where(node)} has the symbolic shape {list(tensor.shape)}; {_STATIC}"
        raise UnsupportedError(msg)
