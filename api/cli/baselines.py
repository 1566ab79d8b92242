"""`encamp baselines`: what the methods a user knows arrive at, beside Encamp's plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from encamp.budget import budget_bytes
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.plan import Figures
from encamp.replay import replay
from encamp.units import format_bytes
from encamp.wire import read_graph

from .options import Budget, GraphFile, Json, Seed, TimeLimit
from .output import count, fields, note, percent, print_json, print_lines, table
from .search import solving

if TYPE_CHECKING:  # loading it loads the solver
    from encamp.planner.baselines import Baseline

_ENCAMP = "Encamp"


def baselines(
    graph_file: GraphFile,
    budget: Budget,
    as_json: Json = False,
    seed: Seed = 0,
    time_limit: TimeLimit = 60.0,
) -> None:
    """Compare a plan with the known methods under one budget.

    Each method runs with the best of its parameters, judged by the same replay. One
    that cannot keep to the budget shows the lowest peak it reaches. The time limit is
    for Checkmate's program and for Encamp, each.
    """
    from encamp.planner.baselines import METHODS, compare  # noqa: PLC0415 - as above

    graph = read_graph(graph_file)
    limit = budget_bytes(graph, budget)
    for method in METHODS:
        if method.max_ops is not None and len(graph.ops) > method.max_ops:
            size = f"{count(len(graph.ops), 'op')}, it takes up to {method.max_ops}"
            note(f"{method.name} is left out: the graph has {size}")
    rows = compare(graph, limit, seconds=time_limit)
    rows = (*rows, _encamp(graph, limit, seed, time_limit))
    timeline = replay(graph)
    unplanned = Figures(timeline.peak_bytes, timeline.duration_ns)
    if as_json:
        print_json(_document(graph, limit, unplanned, rows))
    else:
        print_lines(_lines(graph, limit, unplanned, rows))


def _encamp(graph: CostGraph, limit: int, seed: int, seconds: float) -> Baseline:
    from encamp.planner import Options, solve  # noqa: PLC0415 - loads the solver
    from encamp.planner.baselines import Baseline  # noqa: PLC0415 - as above

    options = Options(seed=seed, time_limit_s=seconds)
    try:
        with solving() as progress:
            plan = solve(graph, limit, options=options, progress=progress)
    except (InfeasibleError, NoPlanError):
        return Baseline(_ENCAMP, "this program", (), 0, 0, fits=False)
    return Baseline(
        name=_ENCAMP,
        source="this program",
        steps=plan.steps,
        peak_bytes=plan.peak_bytes,
        duration_ns=plan.duration_ns,
        fits=True,
    )


def _lines(
    graph: CostGraph, limit: int, unplanned: Figures, rows: Sequence[Baseline]
) -> list[str]:
    head = [("budget", format_bytes(limit))]
    cells = [("method", "peak", "overhead", "", "source")]
    cells += [_cells(row, unplanned) for row in rows]
    return [graph.name, *fields(head), "", *table(cells, right=" >>")]


def _cells(row: Baseline, unplanned: Figures) -> tuple[str, str, str, str, str]:
    if not row.steps:
        return row.name, "-", "-", "none found", row.source
    fits = "fits" if row.fits else "over"
    overhead = _overhead(row, unplanned)
    added = "-" if overhead is None else percent(overhead)
    return row.name, format_bytes(row.peak_bytes), added, fits, row.source


def _overhead(row: Baseline, unplanned: Figures) -> float | None:
    """Return the added share of the unplanned step, where there is one."""
    if not row.steps or not unplanned.duration_ns:
        return None
    return row.duration_ns / unplanned.duration_ns - 1


def _document(
    graph: CostGraph, limit: int, unplanned: Figures, rows: Sequence[Baseline]
) -> dict[str, object]:
    return {
        "graph": graph.name,
        "budget_bytes": limit,
        "unplanned": asdict(unplanned),
        "methods": [
            {
                "name": row.name,
                "source": row.source,
                "fits": row.fits,
                "peak_bytes": row.peak_bytes if row.steps else None,
                "duration_ns": row.duration_ns if row.steps else None,
                "overhead": _overhead(row, unplanned),
            }
            for row in rows
        ],
    }
