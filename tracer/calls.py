"""One operator call with fake operands, and what it costs.

`OpCall` is what lowering hands to a cost source; `OpCost` is what it gets back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class OpCall:
    """A call of `target`; every tensor in `args` and `kwargs` is a FakeTensor.

    Tensors stand at any depth of the arguments (lists of tensors occur). Their
    shapes, dtypes, strides and devices are those of the call in the step.
    """

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpCost:
    """Duration and spread (interquartile range) in ns, workspace in bytes."""

    duration_ns: int
    workspace_bytes: int = 0
    spread_ns: int = 0


Progress = Callable[[int, int], None]
"""Called with (done, total) while a cost source works."""


class CostSource(Protocol):
    """Something that knows what operator calls cost on one device."""

    @property
    def meta(self) -> Mapping[str, str | int]:
        """What the graph records about its costs.

        "costs" is "measured" or "roofline:NAME", "device" the device's name and
        "device_memory_bytes" its memory, where known.
        """
        ...

    def costs(
        self, calls: Sequence[OpCall], progress: Progress | None = None
    ) -> list[OpCost]:
        """Return the cost of each call, in order.

        Raises:
            CostError: a call cannot be measured or looked up.

        """
        ...
