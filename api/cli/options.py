"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GraphFile = Annotated[
    Path, typer.Argument(metavar="GRAPH", help="A graph: .json or .json.zst.")
]
PlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN", help="A plan: .json or .json.zst.")
]
Factory = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:FACTORY",
        help="A callable that returns (model, args), (model, args, kwargs) or a dict"
        " of those names; the current directory is importable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Budget = Annotated[
    str, typer.Option("--budget", help="Peak memory of the step, e.g. 16GiB.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the search.")]
TimeLimit = Annotated[
    float,
    typer.Option("--time-limit", min=0.0, metavar="SECONDS", help="End the search."),
]
SearchTime = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        min=0.0,
        metavar="SECONDS",
        help="End the search; 60 s unless its work is limited.",
        show_default=False,
    ),
]
SearchWork = Annotated[
    int | None,
    typer.Option(
        "--work-limit",
        min=0,
        metavar="UNITS",
        help="End the search after so many million elementary steps instead: the same"
        " result on every machine.",
        show_default=False,
    ),
]
_RULE = "WHAT is an operator, module:PATH or name:OP; * stands for any text."
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="WHAT",
        help=f"Never recompute these ops. {_RULE}",
        show_default=False,
    ),
]
Again = Annotated[
    list[str] | None,
    typer.Option(
        "--recompute",
        metavar="WHAT",
        help="Hold nothing that these forward ops make until the backward.",
        show_default=False,
    ),
]
FixedOrder = Annotated[
    bool,
    typer.Option(
        "--fixed-order",
        help="Keep first runs in the graph's order: search for no other, which is done"
        " for graphs without a backward.",
    ),
]
