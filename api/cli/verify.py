"""`encamp verify`: whether a planned step is the unplanned one, and as predicted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from encamp.wire import read_plan

from .exits import Exit
from .extras import require_torch
from .factories import load_factory
from .options import Factory, Json
from .output import print_json, print_lines, table

if TYPE_CHECKING:  # loading it loads torch
    from encamp.runtime.report import Report


def verify(
    factory: Factory,
    plan_file: Annotated[
        Path, typer.Option("--plan", help="The plan: .json or .json.zst.")
    ],
    as_json: Json = False,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Training steps to compare.")
    ] = 3,
    seed: Annotated[
        int, typer.Option("--seed", help="Random seed every run starts from.")
    ] = 0,
    costs: Annotated[
        str, typer.Option("--costs", help="Predict by: measured or roofline:NAME.")
    ] = "measured",
    compiler: Annotated[
        str, typer.Option("--compiler", help="What runs the steps: eager or lite.")
    ] = "eager",
) -> None:
    """Run a training step planned and unplanned, and compare.

    Loss, gradients, buffers and the random state bit for bit; measured peak and step
    time against predicted. The factory is called with real tensors. Exits 6 on any
    difference, and names the first operation whose recomputed output differs from its
    first run's.
    """
    require_torch("encamp verify")
    from encamp.runtime import verify as verified  # noqa: PLC0415 - loads torch

    plan = read_plan(plan_file)
    report = verified(
        load_factory(factory),
        plan,
        steps=steps,
        seed=seed,
        costs=costs,
        compiler=compiler,
    )
    if as_json:
        print_json(report.to_json())
    else:
        print_lines(_lines(report))
    raise typer.Exit(Exit.DONE if report.ok else Exit.FAILED)


def _lines(report: Report) -> list[str]:
    rows = [("", "unplanned", "planned", ""), *report.rows()]
    verdict = "ok" if report.ok else "FAILED"
    found = [f"  {finding}" for finding in report.findings]
    if report.explanation:
        found.append(f"  {report.explanation}")
    return [f"{report.name}: {verdict}", *found, *table(rows)]
