"""Why a step is no single graph: Dynamo's reasons as refusals for a person.

A step is planned as a whole or not at all. What Dynamo cannot put into one graph is
refused where it is met, with its source line and what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from traceback import FrameSummary
from typing import NoReturn

import torch
from torch import fx
from torch._dynamo import config
from torch._dynamo.exc import (
    FailOnRecompileLimitHit,
    TorchDynamoException,
    Unsupported,
)

from encamp.errors import CaptureError, EncampError, UnsupportedError

_TORCH = str(Path(torch.__file__).parent)

_KEEP_OUT = "keep printing and data-dependent Python out of the step"
_HOOK_TENSORS = (
    "hook the module's output in its forward instead, with tensor.register_hook, or its"
    " parameters; both are planned"
)
_DIFFERENTIATE_APART = (
    "compute the inner gradient with torch.func.grad, which is planned as a part of the"
    " step, or do it outside the step"
)

_RUN_ONCE = (
    "call the step once as it is, without compiling it, so that it has set itself up"
    " (models of Transformers do at their first call)"
)
_APPLY = "plan it with encamp.apply, which takes such layers apart into their steps"

_KNOWN = (
    (
        r"generic_jump TensorVariable|Data-dependent branching",
        "Python branches on the value of a tensor",
        _KEEP_OUT,
    ),
    (r"backwards? hooks", "a module in it has a backward hook", _HOOK_TENSORS),
    (
        r"autograd\.grad|Tensor\.backward|requires_grad_\(\) intermediate",
        "it differentiates inside the step, which makes its backward a double backward",
        _DIFFERENTIATE_APART,
    ),
    (
        r"Unsupported context manager",
        "it enters a context manager that graphs cannot hold, a lock for instance",
        _RUN_ONCE,
    ),
    (r"wrap RNN, GRU, or LSTM", "it holds a recurrent layer", _APPLY),
)
"""Dynamo's reasons that only its authors would understand, in words, with a way out."""

Refused = (TorchDynamoException, FailOnRecompileLimitHit)
"""What Dynamo raises when it cannot compile a step as one graph."""


def one_graph(module: fx.GraphModule) -> None:
    """Refuse a graph that is only a part of the step.

    Raises:
        CaptureError: Dynamo broke the step into several graphs.

    """
    broken = getattr(module, "compile_subgraph_reason", None)
    if broken is not None and broken.graph_break:
        raise several_graphs(broken.reason, broken.user_stack)


def several_graphs(reason: str, frames: Iterable[FrameSummary] = ()) -> CaptureError:
    """Return the refusal of a step that breaks at `frames` for Dynamo's `reason`."""
    words, advice = _explained(reason)
    msg = (
        f"the step breaks into several graphs{_place(frames)} ({words}). Encamp plans a"
        " step that is one graph; run it with TORCH_LOGS=graph_breaks to see what to"
        f" change, and {advice}"
    )
    return CaptureError(msg)


def refuse(error: Exception) -> NoReturn:
    """Raise what an error of Dynamo's means to a user of Encamp.

    Raises:
        EncampError: the one inside `error`, where a backend of ours raised it.
        UnsupportedError: the step was compiled for as many shapes or modes as may be.
        CaptureError: the step could not be captured as one graph.

    """
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, EncampError):
        raise inner from None
    if isinstance(error, FailOnRecompileLimitHit):
        raise too_many(config.recompile_limit) from None
    if isinstance(error, Unsupported):
        raise several_graphs(error.msg, error.real_stack or ()) from error
    msg = (
        f"the step could not be captured as one graph; it failed: {inner or error}. Try"
        " torch.compile(step, backend='aot_eager', fullgraph=True) to work on it"
    )
    raise CaptureError(msg) from error


def too_many(limit: int) -> UnsupportedError:
    """Return the refusal of a step that was compiled `limit` times.

    Past that limit PyTorch runs a step as it is, without a plan.
    """
    msg = (
        f"the step was compiled for {limit} different shapes, modes or sets of"
        " parameters to train, and PyTorch compiles no more (it would run the next one"
        " unplanned, at any peak). Pad its inputs to fewer shapes, or raise"
        " torch._dynamo.config.recompile_limit"
    )
    return UnsupportedError(msg)


def _explained(reason: str) -> tuple[str, str]:
    for pattern, words, advice in _KNOWN:
        if re.search(pattern, reason):
            return words, advice
    return reason.partition("\n")[0].rstrip("."), _KEEP_OUT


def _place(frames: Iterable[FrameSummary]) -> str:
    """Return " at file.py:12" for the innermost line outside of PyTorch."""
    users = [frame for frame in frames if not frame.filename.startswith(_TORCH)]
    if not users:
        return ""
    return f" at {PurePath(users[-1].filename).name}:{users[-1].lineno}"
