"""A first solve that nobody waits for.

The planner's loops are compiled when they are first used on a machine, which takes
half a minute; it is better to have begun when the first request comes.
"""

from __future__ import annotations

import json

from .job import Job, Pool, Stop

_LENGTH = 6


def warm_up(pool: Pool) -> None:
    """Solve a small step, so that what later solves need is compiled."""
    options: dict[str, object] = {
        "seed": 0,
        "time_limit_s": 300.0,
        "work_limit": None,
        "target_gap": 0.0,
        "keep": [],
        "recompute": [],
        "robust": None,
    }
    request = {"budget_bytes": 40, "reserve_bytes": 0, "options": options}
    job = Job("plan", json.dumps(_step()).encode(), request)
    pool.run(job, lambda _: None, Stop())


def _step() -> dict[str, object]:
    """Return a chain and its backward, which reads each value of the forward."""
    count = _LENGTH
    values: list[dict[str, object]] = []
    ops: list[dict[str, object]] = []
    for i in range(2 * count + 1):
        kind = "input" if i == 0 else "activation" if i <= count else "gradient"
        values.append({"id": i, "bytes": 10 - i % 3, "kind": kind, "resident": i == 0})
    ops += [_op(i, "forward", [i], i + 1) for i in range(count)]
    for i in range(count):
        reads = [count + i, count - i] if i else [count]
        ops.append(_op(count + i, "backward", reads, count + i + 1))
    return {
        "schema": "encamp.graph/1",
        "name": "warm-up",
        "values": values,
        "ops": ops,
        "outputs": [2 * count],
    }


def _op(index: int, phase: str, inputs: list[int], output: int) -> dict[str, object]:
    return {
        "id": index,
        "name": f"op{index}",
        "target": "aten.mm.default",
        "phase": phase,
        "inputs": inputs,
        "outputs": [output],
        "duration_ns": 10 + index % 4,
    }
