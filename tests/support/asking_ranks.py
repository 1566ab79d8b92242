"""One rank of two that bind a plan from a source, run as a program by a test.

Costs differ from rank to rank, and rank 1 alone has a graph that is larger where that
is asked for. Writes what it found, or was refused with, as JSON.
"""

import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from cli_chain import chain
from encamp.errors import EncampError
from encamp.runtime.binding import bind
from encamp.runtime.options import StepOptions


def graph_of(rank, larger):
    """Return the chain, its ops 1 ns slower on each rank."""
    graph = chain()
    ops = [replace(op, duration_ns=op.duration_ns + rank) for op in graph.ops]
    values = list(graph.values)
    if larger and rank:
        values[3] = replace(values[3], bytes=1000)
    return replace(graph, ops=tuple(ops), values=tuple(values))


def found(rank, options):
    """Return the steps that this rank would run, or why there are none."""
    larger = options.pop("larger", False)
    try:
        bound = bind(graph_of(rank, larger), StepOptions(**options))
    except EncampError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"steps": list(bound.plan.steps), "seconds": bound.plan.solver.seconds}


def main():
    """Join the other rank and bind once for each set of options."""
    rank, meeting, asked, report = int(sys.argv[1]), *sys.argv[2:]
    dist.init_process_group(
        "gloo",
        init_method=Path(meeting).as_uri(),
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    results = [found(rank, options) for options in json.loads(asked)]
    Path(report).write_text(json.dumps(results), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
