"""What Dynamo is compiling when it calls a backend: the whole step, or a part of it.

A backend is handed graphs and is not told where they come from. Where a step breaks
before its first operation, or a hook runs outside of it, the graph is only a part of
the step, and a plan for it would say nothing of the step's memory. Past a number of
compilations Dynamo calls no backend at all and runs the step as it is. Both can be
read off the Python frames of Dynamo that are calling.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary
from types import FrameType
from typing import Any

import torch
from torch._dynamo import config, eval_frame
from torch._dynamo.utils import graph_break_reasons

from encamp.errors import UnsupportedError
from encamp.tracer.breaks import several_graphs, too_many

_TORCH = str(Path(torch.__file__).parent)
_ENTRY = ("compile_wrapper", eval_frame.__file__)
_COMPILING = ("_compile", str(Path(eval_frame.__file__).with_name("convert_frame.py")))
_CALLS_MODULE = ("_call_impl", torch.nn.modules.module.__file__)


def require_whole_step() -> None:
    """Refuse to compile a part of a step, or the last compilation Dynamo will do.

    Raises:
        CaptureError: the frame that is compiled runs inside of a step that broke.
        UnsupportedError: the step's module has hooks that run outside of the graph,
            or Dynamo would run the next shape unplanned.

    """
    callers = _callers()
    compiling = next((f for f in callers if _is(f, _COMPILING)), None)
    if compiling is None:
        return
    within = list(_until_entry(callers))
    _refuse_part(within)
    _refuse_outside_hooks(within)
    if not compiling.f_locals["one_graph"]:
        _refuse_last(compiling.f_locals["cache_size"])


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- the only way to it
    while frame is not None:
        yield frame
        frame = frame.f_back


def _until_entry(callers: Iterator[FrameType]) -> Iterator[FrameType]:
    """Yield the frames up to where the compiled step was called."""
    for frame in callers:
        if _is(frame, _ENTRY):
            return
        yield frame


def _is(frame: FrameType, place: tuple[str, str]) -> bool:
    return (frame.f_code.co_name, frame.f_code.co_filename) == place


def _refuse_part(within: list[FrameType]) -> None:
    running = [f for f in within if not f.f_code.co_filename.startswith(_TORCH)]
    if not running:
        return
    lines = [
        FrameSummary(f.f_code.co_filename, f.f_lineno, f.f_code.co_name)
        for f in reversed(running)
    ]
    broken = graph_break_reasons[-1].reason if graph_break_reasons else "unknown"
    raise several_graphs(broken, lines)


def _refuse_outside_hooks(within: list[FrameType]) -> None:
    for frame in within:
        module = frame.f_locals.get("self") if _is(frame, _CALLS_MODULE) else None
        if isinstance(module, torch.nn.Module) and _has_forward_hooks(module):
            msg = (
                f"the step's module, {type(module).__name__}, has a forward hook, which"
                " torch.compile(module) runs outside of the step and of its plan; use"
                " encamp.apply(module, ...), which plans it as a part of the step"
            )
            raise UnsupportedError(msg)


def _has_forward_hooks(module: torch.nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)  # noqa: SLF001


def _refuse_last(cache: Any) -> None:  # noqa: ANN401 -- Dynamo's count of compilations
    limit = config.recompile_limit
    if cache.num_cache_entries_with_same_id_matched_objs + 1 >= limit:
        raise too_many(limit - 1)
