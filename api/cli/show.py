"""`encamp show`: a graph or a plan for people, and as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from encamp.api.pictures import draw_memory
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import read_document, read_graph

from .documents import plan_document, require_same_structure
from .graph_summary import graph_lines, summarise_graph
from .options import Json
from .output import note, print_json, print_lines
from .plan_summary import plan_lines, recomputation, recomputation_lines


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A graph or a plan.")],
    graph_file: Annotated[
        Path | None,
        typer.Option("--graph", help="With a plan: its graph, to name what is re-run."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            help="With --graph: draw memory over the step to a .png, .svg or .pdf.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a graph needs or what a plan does.

    Of a graph: ops, where the unplanned step peaks and what is live there, and what
    may not run again. Of a plan: its figures and proof; with --graph also what is
    recomputed, and which random draws are saved or replayed.
    """
    if picture is not None and graph_file is None:
        msg = "--picture needs the plan's graph: --graph GRAPH"
        raise typer.BadParameter(msg)
    document = read_document(file)
    if isinstance(document, Plan):
        graph = None if graph_file is None else read_graph(graph_file)
        _show_plan(document, graph, as_json=as_json)
        if picture is not None and graph is not None:
            draw_memory(graph, document, picture)
            note(f"wrote {picture}")
    elif graph_file is not None:
        msg = f"{file} is a graph; --graph goes with a plan"
        raise typer.BadParameter(msg)
    elif as_json:
        print_json(asdict(summarise_graph(document)))
    else:
        print_lines(graph_lines(summarise_graph(document)))


def _show_plan(plan: Plan, graph: CostGraph | None, *, as_json: bool) -> None:
    again = None
    if graph is not None:
        require_same_structure(plan, graph)
        again = recomputation(plan, graph)
    if as_json:
        extra = {} if again is None else {"recomputation": asdict(again)}
        print_json(plan_document(plan, whole=False) | extra)
    else:
        more = [] if again is None else recomputation_lines(again)
        print_lines([*plan_lines(plan), *more])
