"""`encamp plan`: the cheapest step that stays under a budget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from encamp.budget import budget_bytes
from encamp.errors import InfeasibleError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import read_graph, write_plan

from .documents import plan_document
from .options import (
    Again,
    Budget,
    GraphFile,
    Json,
    Keep,
    SearchTime,
    SearchWork,
    Seed,
)
from .output import note, print_json, print_lines
from .plan_summary import plan_lines
from .search import interruptible, search_options, solving

if TYPE_CHECKING:  # loading it loads the solver
    from encamp.planner import Options


def plan(
    graph_file: GraphFile,
    budget: Budget,
    reserve: Annotated[
        str, typer.Option("--reserve", help="Kept free of the budget, e.g. 1GiB.")
    ] = "0",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the plan: .json or .json.zst."),
    ] = None,
    as_json: Json = False,
    steps: Annotated[
        bool, typer.Option("--steps", help="With --json: all of it, steps too.")
    ] = False,
    keep: Keep = None,
    recompute: Again = None,
    robust: Annotated[
        str | None,
        typer.Option(
            "--robust",
            metavar="SHARE",
            help="State the worst under durations off by up to a share, e.g. 20%.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    time_limit: SearchTime = None,
    work_limit: SearchWork = None,
) -> None:
    """Find the cheapest schedule of a graph under a byte budget.

    Exits 3 if nothing fits, and then names the smallest budget that does; 7 if the
    end of the search came before any plan. Ctrl-C ends it with the best plan so far.
    """
    if steps and not as_json:
        msg = "--steps goes with --json; -o writes the whole plan"
        raise typer.BadParameter(msg)
    options = search_options(
        seed=seed,
        time_limit=time_limit,
        work_limit=work_limit,
        keep=keep or (),
        recompute=recompute or (),
        robust=robust,
    )
    graph = read_graph(graph_file)
    limit, kept_free = budget_bytes(graph, budget), budget_bytes(graph, reserve)
    try:
        found = _solve(graph, limit, kept_free, options)
    except InfeasibleError as error:
        if as_json:
            print_json(_infeasible(error))
        raise
    if output is not None:
        write_plan(found, output)
        note(f"wrote {output}")
    if as_json:
        print_json(plan_document(found, whole=steps))
    else:
        print_lines(plan_lines(found))


def _solve(graph: CostGraph, limit: int, reserve: int, options: Options) -> Plan:
    from encamp.planner import solve  # noqa: PLC0415 - loads the solver

    with interruptible() as cancel, solving() as progress:
        return solve(
            graph,
            limit,
            reserve_bytes=reserve,
            options=options,
            progress=progress,
            cancel=cancel,
        )


def _infeasible(error: InfeasibleError) -> dict[str, object]:
    return {
        "status": "infeasible",
        "budget_bytes": error.budget_bytes,
        "smallest_bytes": error.smallest_bytes,
        "bound_bytes": error.bound_bytes,
        "peak": None if error.site is None else asdict(error.site),
    }
