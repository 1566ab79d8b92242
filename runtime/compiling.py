"""Compile a step as a whole, and say in Encamp's words why that cannot be."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch.nn.parallel import DistributedDataParallel

from encamp.errors import CaptureError, EncampError
from encamp.tracer.breaks import Refused, refuse
from encamp.tracer.capture import Step, private_copy
from encamp.tracer.recurrent import recurrent_layers, trainable_lstm

from .guarding import guard_hooks

Partition = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]
"""Splits a joint graph in two, as AOTAutograd asks it to."""

_RAN_UNCOMPILED = "found no compiled frames"
"""What PyTorch says once a step has run without being compiled."""


def compile_with(step: Step, backend: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Return `step` compiled with `backend` for fixed shapes: one graph or a refusal.

    A module stays one. Its own hooks become a part of the graph, which
    `torch.compile(module)` leaves outside.
    """
    if isinstance(step, DistributedDataParallel):
        # Its forward prepares the reducer in Python and cannot be one graph.
        return torch.compile(step, backend=backend, dynamic=False)
    whole = _refusing(_compiled(private_copy(step), backend), step)
    if not isinstance(step, torch.nn.Module):
        return whole
    module = _compiled(step, backend)
    module.forward = whole
    return module


def compile_split(
    module: fx.GraphModule,
    example_inputs: list[Any],
    partition: Partition,
    compile_graph: Callable[..., Any] = boxed_nop,
) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
    """Compile one graph of Dynamo's, its joint graph split by `partition`.

    `compile_graph` runs both halves kernel by kernel; hooks count as a part of the
    code. No kernel reuses a saved tensor's memory, and AOTAutograd has to know that, or
    it forbids a second backward (retain_graph).
    """
    guard_hooks()
    compiler = aot_autograd(
        fw_compiler=compile_graph,
        bw_compiler=compile_graph,
        inference_compiler=boxed_nop,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with functorch_config.patch(donated_buffer=False), trainable_lstm():
        compiled = compiler(module, example_inputs)
    allow_second_backward()
    return compiled


def allow_second_backward() -> None:
    """Tell AOTAutograd that the backward just compiled takes no saved tensor over."""
    tracing = TracingContext.try_get()
    if tracing is not None and tracing.fw_metadata is not None:
        # Not collected, they are taken for unknown, which forbids it as well.
        tracing.fw_metadata.bw_donated_idxs = []


def _compiled(step: Step, backend: Callable[..., Any]) -> Any:  # noqa: ANN401
    return torch.compile(step, backend=backend, dynamic=False, fullgraph=True)


def _refusing(compiled: Step, step: Step) -> Step:
    """Return `compiled`, a compiled `step`, raising exceptions of Encamp's."""

    def run_planned(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- as the step's
        try:
            with recurrent_layers():
                return compiled(*args, **kwargs)
        except EncampError:
            raise
        except Refused as error:
            refuse(error)
        except RuntimeError as error:
            if _RAN_UNCOMPILED not in str(error):
                raise
            raise CaptureError(_uncompiled(error)) from None

    return functools.update_wrapper(run_planned, step, updated=())


def _uncompiled(error: RuntimeError) -> str:
    reasons = re.findall(r"^  - .*?: (.*)$", str(error), re.MULTILINE)
    why = f" ({reasons[0]})" if reasons else ""
    return (
        f"PyTorch ran the step as it is, without its plan{why}. Call it outside of"
        " dispatch modes (FlopCounterMode and the like) and of torch.compiler.disable"
    )
