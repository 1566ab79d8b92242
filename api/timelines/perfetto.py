"""A plan as a trace for ui.perfetto.dev and chrome://tracing.

The format is that of "Trace Event Format" (Duffy and others, Google). Times are
microseconds; forward, recomputations and backward are threads of one process, and
the planned memory is a counter beside its budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from encamp.graph import CostGraph
from encamp.plan import Plan

from .steps import timeline_document

_PROCESS = 1
_THREADS = {"forward": 1, "recomputed": 2, "backward": 3}


def trace(graph: CostGraph, plan: Plan) -> dict[str, Any]:
    """Return the trace of a plan's steps."""
    events = [*_names(graph.name), *_steps(graph, plan)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _names(name: str) -> Iterator[dict[str, Any]]:
    yield _meta("process_name", 0, name)
    for thread, number in _THREADS.items():
        yield _meta("thread_name", number, thread)
        yield {**_meta("thread_sort_index", number, ""), "args": {"sort_index": number}}


def _meta(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M",
        "pid": _PROCESS,
        "tid": thread,
        "name": kind,
        "args": {"name": name},
    }


def _steps(graph: CostGraph, plan: Plan) -> Iterator[dict[str, Any]]:
    allowed = plan.budget_bytes - plan.reserve_bytes
    for step in timeline_document(graph, plan)["steps"]:
        op = graph.ops[step["op"]]
        thread = "recomputed" if step["run"] > 1 else str(step["phase"])
        start = step["start_ns"] / 1000
        yield {
            "ph": "X",
            "pid": _PROCESS,
            "tid": _THREADS[thread],
            "name": op.name,
            "cat": thread,
            "ts": start,
            "dur": step["duration_ns"] / 1000,
            "args": {
                "target": op.target,
                "module": op.module or "",
                "source": op.source or "",
                "run": step["run"],
                "memory_bytes": step["memory_bytes"],
            },
        }
        yield {
            "ph": "C",
            "pid": _PROCESS,
            "name": "memory",
            "ts": start,
            "args": {"planned_bytes": step["memory_bytes"]},
        }
        yield {
            "ph": "C",
            "pid": _PROCESS,
            "name": "budget",
            "ts": start,
            "args": {"budget_bytes": allowed},
        }
