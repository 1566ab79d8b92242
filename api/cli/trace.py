"""`encamp trace`: one training step as a cost graph in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from encamp.wire import write_graph

from .extras import require_torch
from .factories import load_factory
from .graph_summary import graph_lines, summarise_graph
from .options import Factory
from .output import note, print_lines
from .progress import progress


def trace(
    factory: Factory,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to: .json or .json.zst."),
    ],
    costs: Annotated[
        str, typer.Option(help="measured, or roofline:NAME (see encamp devices).")
    ] = "measured",
    compiler: Annotated[
        str, typer.Option(help="What will run it: eager or lite.")
    ] = "eager",
    name: Annotated[
        str | None, typer.Option(help="The graph's name; default: the factory's.")
    ] = None,
) -> None:
    """Capture a model's training step, with what every op costs.

    The factory is called under fake tensors, so that no weight is allocated. Measured
    costs are those of this machine's device; roofline costs are computed.
    """
    require_torch("encamp trace")
    from encamp.tracer import trace_factory  # noqa: PLC0415 - loads torch

    with progress("costing ops") as report:
        graph = trace_factory(
            load_factory(factory),
            costs=costs,
            compiler=compiler,
            name=name or factory,
            progress=report,
        )
    write_graph(graph, output)
    note(f"wrote {output}")
    print_lines(graph_lines(summarise_graph(graph)))
