"""`encamp min-budget`: how little memory a step can run in."""

from __future__ import annotations

from dataclasses import asdict

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
from .output import fields, percent, print_json, print_lines
from .search import interruptible, search_options, solving


def min_budget(
    graph_file: GraphFile,
    as_json: Json = False,
    keep: Keep = None,
    recompute: Again = None,
    fixed_order: FixedOrder = False,
    seed: Seed = 0,
    time_limit: SearchTime = None,
    work_limit: SearchWork = None,
) -> None:
    """Find the smallest budget that a schedule of the graph fits.

    Prints it with a proven lower bound, the op at its peak and what is live there.
    Ctrl-C ends the search with the smallest so far.
    """
    from encamp.planner import min_budget as smallest_budget  # noqa: PLC0415

    options = search_options(
        seed=seed,
        time_limit=time_limit,
        work_limit=work_limit,
        keep=keep or (),
        recompute=recompute or (),
        fixed_order=fixed_order,
    )
    graph = read_graph(graph_file)
    with interruptible() as cancel, solving() as progress:
        smallest = smallest_budget(
            graph, options=options, progress=progress, cancel=cancel
        )
    peak = smallest.plan.unplanned.peak_bytes
    if as_json:
        document = {
            "graph": asdict(smallest.plan.graph),
            "budget_bytes": smallest.budget_bytes,
            "bound_bytes": smallest.bound_bytes,
            "unplanned_peak_bytes": peak,
            "peak": asdict(smallest.site),
            "remedies": [asdict(remedy) for remedy in smallest.remedies],
        }
        print_json(document)
        return
    site = smallest.site
    rows = [
        ("smallest budget", _of_peak(smallest.budget_bytes, peak)),
        ("proven bound", _of_peak(smallest.bound_bytes, peak)),
        ("peak at", " ".join(filter(None, (site.op, site.module, site.source)))),
    ]
    live = [f"  {value}" for value in site.values]
    print_lines([graph.name, *fields(rows), "", "largest values live there", *live])
    if smallest.remedies:
        lower = [
            f"  {remedy.what}: {format_bytes(remedy.budget_bytes)},"
            f" {format_bytes(smallest.budget_bytes - remedy.budget_bytes)} less"
            for remedy in smallest.remedies
        ]
        print_lines(["", "what would lower it", *lower])


def _of_peak(size: int, peak: int) -> str:
    share = f", {percent(size / peak)} of the unplanned peak" if peak else ""
    return format_bytes(size) + share
