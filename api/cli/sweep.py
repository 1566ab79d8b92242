"""`encamp sweep`: what each amount of memory costs in time."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from encamp.api.frontier_picture import draw_frontier
from encamp.api.picture_style import require_drawable
from encamp.budget import budget_bytes
from encamp.errors import OptionError
from encamp.graph import CostGraph
from encamp.plan import Plan, Status
from encamp.units import format_bytes
from encamp.wire import read_graph

from .options import (
    Again,
    FixedOrder,
    GraphFile,
    Json,
    Keep,
    SearchTime,
    SearchWork,
    Seed,
)
from .output import fields, note, percent, print_json, print_lines, table
from .search import interruptible, search_options, sweeping

if TYPE_CHECKING:  # loading it loads the solver
    from encamp.planner import Frontier, Options
    from encamp.planner.baselines import Baseline

_SUFFIXES = (".csv", ".json")
_BASELINE_S = 10.0


def sweep(
    graph_file: GraphFile,
    points: Annotated[
        int, typer.Option("--points", min=2, help="How many budgets, evenly spread.")
    ] = 12,
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            metavar="LIST",
            help="These budgets instead, e.g. 16GiB,peak*0.5,40%.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the points: .csv or .json."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw the frontier: .png, .svg or .pdf."),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="With --picture: the known methods on it."),
    ] = False,
    as_json: Json = False,
    keep: Keep = None,
    recompute: Again = None,
    fixed_order: FixedOrder = False,
    seed: Seed = 0,
    time_limit: SearchTime = None,
    work_limit: SearchWork = None,
) -> None:
    """Find the cheapest schedules of a graph at many budgets.

    They reach from the unplanned peak down to the smallest budget that a short search
    finds; `min-budget` searches longer for that one. The limit is for all of them
    together. Ctrl-C ends the search with what was found so far.
    """
    _require_writable(output, picture, baselines=baselines)
    options = search_options(
        seed=seed,
        time_limit=time_limit,
        work_limit=work_limit,
        keep=keep or (),
        recompute=recompute or (),
        fixed_order=fixed_order,
    )
    graph = read_graph(graph_file)
    chosen = None if budgets is None else _budgets(graph, budgets)
    frontier = _sweep(graph, chosen, points, options)
    if output is not None:
        _write(frontier, output)
        note(f"wrote {output}")
    if picture is not None:
        others = _baselines(graph, frontier) if baselines else {}
        draw_frontier(frontier, picture, others)
        note(f"wrote {picture}")
    if as_json:
        print_json(_document(frontier))
    else:
        print_lines(_lines(frontier))


def _require_writable(
    output: Path | None, picture: Path | None, *, baselines: bool
) -> None:
    """Refuse what could not be written before the search rather than after it."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        msg = f"cannot write points to {output.name!r}: its name ends in .csv or .json"
        raise OptionError(msg)
    if picture is not None:
        require_drawable(picture)
    elif baselines:
        msg = "--baselines goes with --picture; `encamp baselines` prints a table"
        raise typer.BadParameter(msg)


def _budgets(graph: CostGraph, texts: str) -> list[int]:
    return [budget_bytes(graph, text) for text in texts.split(",") if text.strip()]


def _sweep(
    graph: CostGraph, budgets: Sequence[int] | None, points: int, options: Options
) -> Frontier:
    from encamp.planner import sweep as swept  # noqa: PLC0415 - loads the solver

    with interruptible() as cancel, sweeping() as progress:
        return swept(
            graph,
            budgets,
            points=points,
            options=options,
            progress=progress,
            cancel=cancel,
        )


def _baselines(graph: CostGraph, frontier: Frontier) -> dict[int, tuple[Baseline, ...]]:
    """Return what the known methods that take any graph arrive at, by budget."""
    from encamp.planner.baselines import METHODS, compare_all  # noqa: PLC0415 - as above

    budgets = [plan.budget_bytes for plan in frontier.plans]
    methods = [method for method in METHODS if method.max_ops is None]
    rows = compare_all(graph, budgets, seconds=_BASELINE_S, methods=methods)
    return dict(zip(budgets, rows, strict=True))


def _point(plan: Plan, *, knee: bool) -> dict[str, object]:
    proof = plan.certificate
    return {
        "budget_bytes": plan.budget_bytes,
        "peak_bytes": plan.peak_bytes,
        "duration_ns": plan.duration_ns,
        "overhead": round(plan.overhead, 6),
        "lower_bound_ns": proof.lower_bound_ns,
        "gap": round(plan.gap, 6),
        "status": plan.status.value,
        "proved_by": proof.proved_by,
        "order": proof.order.value,
        "recomputations": plan.num_recomputations,
        "knee": knee,
    }


def _points(frontier: Frontier) -> list[dict[str, object]]:
    return [
        _point(plan, knee=place == frontier.knee)
        for place, plan in enumerate(frontier.plans)
    ]


def _document(frontier: Frontier) -> dict[str, object]:
    return {
        "graph": asdict(frontier.graph),
        "unplanned": asdict(frontier.unplanned),
        "bound_bytes": frontier.bound_bytes,
        "rules": list(frontier.plans[0].certificate.rules),
        "points": _points(frontier),
        "missed": list(frontier.missed),
        "seconds": frontier.seconds,
    }


def _write(frontier: Frontier, path: Path) -> None:
    if path.suffix.lower() == ".json":
        text = json.dumps(_document(frontier), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        return
    points = [point | {"knee": int(bool(point["knee"]))} for point in _points(frontier)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, points[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(points)


def _lines(frontier: Frontier) -> list[str]:
    peak = frontier.unplanned.peak_bytes
    rows = [
        ("unplanned peak", format_bytes(peak)),
        ("no plan below", f"{format_bytes(frontier.bound_bytes)} (proven)"),
        ("plans", f"{len(frontier.plans)} in {frontier.seconds:.1f} s"),
    ]
    rows += [("rule", rule) for rule in frontier.plans[0].certificate.rules]
    if frontier.missed:
        missed = ", ".join(format_bytes(budget) for budget in frontier.missed)
        rows.append(("none found for", missed))
    cells: list[tuple[str, ...]] = [
        ("budget", "of peak", "peak", "overhead", "bound", "gap", "runs", "")
    ]
    cells += [
        _cells(plan, peak, knee=place == frontier.knee)
        for place, plan in enumerate(frontier.plans)
    ]
    return [frontier.graph.name, *fields(rows), "", *table(cells, right=">>>>>>>")]


def _cells(plan: Plan, peak: int, *, knee: bool) -> tuple[str, ...]:
    unplanned = plan.unplanned.duration_ns
    proved = plan.certificate.lower_bound_ns
    bound = proved / unplanned - 1 if unplanned else 0.0
    optimal = plan.status is Status.OPTIMAL
    notes = [word for word, said in (("optimal", optimal), ("knee", knee)) if said]
    return (
        format_bytes(plan.budget_bytes),
        percent(plan.budget_bytes / peak) if peak else "-",
        format_bytes(plan.peak_bytes),
        percent(plan.overhead),
        percent(bound),
        percent(plan.gap),
        f"+{plan.num_recomputations:,}",
        ", ".join(notes),
    )
