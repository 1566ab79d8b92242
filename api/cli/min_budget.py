"""`encamp min-budget`: how little memory a step can run in."""

from __future__ import annotations

from dataclasses import asdict

from encamp.units import format_bytes
from encamp.wire import read_graph

from .options import GraphFile, Json, Seed, TimeLimit
from .output import fields, percent, print_json, print_lines


def min_budget(
    graph_file: GraphFile,
    as_json: Json = False,
    seed: Seed = 0,
    time_limit: TimeLimit = 60.0,
) -> None:
    """Find the smallest budget that a schedule of the graph fits.

    Prints it with a proven lower bound, the op at its peak and what is live there.
    """
    from encamp.planner import Options  # noqa: PLC0415 - loads the solver
    from encamp.planner import min_budget as smallest_budget  # noqa: PLC0415

    graph = read_graph(graph_file)
    options = Options(seed=seed, time_limit_s=time_limit)
    smallest = smallest_budget(graph, options=options)
    peak = smallest.plan.unplanned.peak_bytes
    if as_json:
        document = {
            "graph": asdict(smallest.plan.graph),
            "budget_bytes": smallest.budget_bytes,
            "bound_bytes": smallest.bound_bytes,
            "unplanned_peak_bytes": peak,
            "peak": asdict(smallest.site),
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


def _of_peak(size: int, peak: int) -> str:
    share = f", {percent(size / peak)} of the unplanned peak" if peak else ""
    return format_bytes(size) + share
