"""Count the storages of a compiled step from inside its compiled graphs.

A dispatch mode around a compiled step makes Dynamo run it eagerly, so the meter is
entered inside the forward and the backward that AOTAutograd calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.debugging import boxed_nop

from encamp.tracer.meter import StorageMeter


@dataclass(slots=True)
class MeteredCompiler:
    """Runs graphs op by op, under a storage meter while it is `active`.

    What the forward is given (parameters, inputs) is not counted; what the backward
    is given beside it (tangents) is.
    """

    meter: StorageMeter = field(default_factory=StorageMeter)
    active: bool = False

    def forward(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Compile a forward graph."""
        return self._boxed(module, inputs, lambda args: self.meter.ignore(args))

    def backward(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Compile a backward graph."""
        return self._boxed(module, inputs, lambda args: self.meter.track(args))

    def peak(self, step: Callable[[], object]) -> int:
        """Return the peak bytes of the storages that `step` makes."""
        self.meter.reset()
        self.active = True
        try:
            step()
        finally:
            self.active = False
        return self.meter.peak_bytes

    def _boxed(
        self,
        module: fx.GraphModule,
        inputs: list[Any],
        enter: Callable[[list[torch.Tensor]], None],
    ) -> Callable[..., Any]:
        run = boxed_nop(module, inputs)

        def call(args: list[Any]) -> Any:  # noqa: ANN401 -- the graph's outputs
            if not self.active:
                return run(args)
            enter([arg for arg in args if isinstance(arg, torch.Tensor)])
            with self.meter:
                return run(args)

        call._boxed_call = True  # type: ignore[attr-defined]  # noqa: SLF001
        return call
