"""A plan over its graph, step by step, as a document."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.replay import replay


def timeline_document(graph: CostGraph, plan: Plan) -> dict[str, Any]:
    """Return when each step of a plan runs and how many bytes are held then.

    `run` counts the runs of an op: from 2 on it is a recomputation. A plan without
    steps, which is one that is infeasible, has an empty timeline.
    """
    if not plan.steps:
        return {"peak_bytes": 0, "peak_step": None, "duration_ns": 0, "steps": []}
    timeline = replay(graph, plan.steps)
    durations = [graph.ops[op].duration_ns for op in timeline.steps]
    starts = accumulate(durations, initial=0)
    runs: Counter[int] = Counter()
    steps = []
    for op, memory, start in zip(timeline.steps, timeline.memory, starts, strict=False):
        runs[op] += 1
        steps.append(
            {
                "op": op,
                "name": graph.ops[op].name,
                "phase": graph.ops[op].phase,
                "run": runs[op],
                "start_ns": start,
                "duration_ns": graph.ops[op].duration_ns,
                "memory_bytes": memory,
            }
        )
    return {
        "peak_bytes": timeline.peak_bytes,
        "peak_step": timeline.peak_step,
        "duration_ns": timeline.duration_ns,
        "steps": steps,
    }
