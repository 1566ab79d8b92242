"""`encamp diff`: what changed from one plan to another."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from encamp.api.plan_diff import FigureChange, PlanDiff, RunsChange, compare
from encamp.plan import Plan
from encamp.units import format_bytes, format_duration
from encamp.wire import read_graph, read_plan

from .options import Json
from .output import count, fields, percent, print_json, print_lines, table

_MOST = 12
_LABELS = {
    "status": "status",
    "budget_bytes": "budget",
    "reserve_bytes": "reserve",
    "peak_bytes": "peak",
    "duration_ns": "step",
    "lower_bound_ns": "bound",
    "gap": "gap",
    "overhead": "overhead",
    "recomputations": "recomputed",
    "unplanned_peak_bytes": "unplanned peak",
    "unplanned_duration_ns": "unplanned step",
}


def diff(
    before_file: Annotated[
        Path, typer.Argument(metavar="PLAN_A", help="The plan as it was.")
    ],
    after_file: Annotated[
        Path, typer.Argument(metavar="PLAN_B", help="The plan as it is now.")
    ],
    graph_file: Annotated[
        Path | None,
        typer.Option("--graph", help="Their graph, to tell modules and times."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what changed from one plan to another.

    Budget, peak, duration, bound and gap; and what is recomputed more and less, by
    module where --graph is given, else by operator. Plans of different structures are
    compared by their figures only. Exits 0 whether they differ or not, and 4 if the
    graph is not theirs.
    """
    before, after = read_plan(before_file), read_plan(after_file)
    graph = None if graph_file is None else read_graph(graph_file)
    found = compare(before, after, graph)
    if as_json:
        print_json(_document(before, after, found))
    else:
        print_lines(_lines(before, after, found))


def _document(before: Plan, after: Plan, found: PlanDiff) -> dict[str, object]:
    groups = None if found.groups is None else [asdict(g) for g in found.groups]
    return {
        "before": asdict(before.graph),
        "after": asdict(after.graph),
        "same_structure": found.same_structure,
        "same_exact": found.same_exact,
        "same_steps": found.same_steps,
        "figures": {
            figure.name: {"before": figure.before, "after": figure.after}
            for figure in found.figures
        },
        "ops_more": found.more,
        "ops_less": found.less,
        "groups": groups,
    }


def _lines(before: Plan, after: Plan, found: PlanDiff) -> list[str]:
    names = dict.fromkeys((before.graph.name, after.graph.name))
    head = [" -> ".join(names), *fields([("graph", _graphs(found))])]
    rows = [_figure_row(figure) for figure in found.figures if _is_told(figure)]
    figures = table([("", "before", "after", "change"), *rows], right=" >>>")
    return [*head, "", *figures, *_ops(found)]


def _graphs(found: PlanDiff) -> str:
    if not found.same_structure:
        return "another structure: what is recomputed cannot be compared"
    return "the same" if found.same_exact else "the same structure, of other bytes"


def _is_told(figure: FigureChange) -> bool:
    """Leave out a reserve that neither plan has."""
    return figure.name != "reserve_bytes" or bool(figure.before or figure.after)


def _figure_row(figure: FigureChange) -> tuple[str, str, str, str]:
    told = _told(figure.name, figure.before), _told(figure.name, figure.after)
    return (_LABELS[figure.name], *told, _change(figure) if figure.changed else "")


def _told(name: str, amount: float | str) -> str:
    if isinstance(amount, str):
        return amount
    if name.endswith("_bytes"):
        return format_bytes(int(amount))
    if name.endswith("_ns"):
        return format_duration(int(amount))
    if name == "recomputations":
        return count(int(amount), "run")
    return percent(amount)


def _change(figure: FigureChange) -> str:
    before, after = figure.before, figure.after
    if isinstance(before, str) or isinstance(after, str):
        return "changed"
    if figure.name in ("gap", "overhead"):
        return f"{(after - before) * 100:+.2f} points"
    if not before:
        return f"{after - before:+,}"
    return f"{(after / before - 1) * 100:+.2f} %"


def _ops(found: PlanDiff) -> list[str]:
    if found.groups is None:
        return []
    if found.same_steps:
        return ["", "the steps are the same"]
    if not found.groups:
        return ["", "the same ops run again, at other places"]
    more, less = count(found.more or 0, "op"), count(found.less or 0, "op")
    rows = [_group_row(group) for group in found.groups[:_MOST]]
    lines = table([("extra runs", "adds", "where"), *rows], right=">>")
    rest = len(found.groups) - _MOST
    lines += [f"  and {rest:,} more"] if rest > 0 else []
    return ["", f"{more} recomputed more, {less} less", *lines]


def _group_row(group: RunsChange) -> tuple[str, str, str]:
    known = group.before_ns is not None
    sign = "-" if group.added_ns < 0 else "+"
    added = f"{sign}{format_duration(abs(group.added_ns))}" if known else "-"
    return f"{group.before:,} -> {group.after:,}", added, group.name
