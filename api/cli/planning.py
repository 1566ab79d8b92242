"""Solve one graph for `encamp plan`, and report what came of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import typer

from encamp.api.lock import Choices
from encamp.api.plan_table import PlanRow
from encamp.budget import budget_bytes
from encamp.errors import OptionError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire.files import write_content

from .output import note
from .search import interruptible, search_options, solving

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def solve_here(graph: CostGraph, choices: Choices) -> Plan:
    """Return the plan of a graph, solved in this process.

    Raises:
        EncampError: what reading the choices and solving raises.

    """
    from encamp.planner import solve  # noqa: PLC0415 - loads the solver

    options = search_options(
        seed=choices.seed,
        time_limit=choices.time_limit_s,
        work_limit=choices.work_limit,
        keep=choices.keep,
        recompute=choices.recompute,
        robust=choices.robust,
        fixed_order=choices.fixed_order,
    )
    limit = budget_bytes(graph, choices.budget)
    reserve = budget_bytes(graph, choices.reserve)
    limit_s = choices.time_limit_s
    with interruptible() as cancel, solving(limit_s) as progress:
        return solve(
            graph,
            limit,
            reserve_bytes=reserve,
            options=options,
            progress=progress,
            cancel=cancel,
        )


@dataclass(frozen=True, slots=True)
class SummaryTo:
    """Where a summary in Markdown goes: a file, the job's page, both or nowhere."""

    file: Path | None
    step: bool

    def __post_init__(self) -> None:
        """Refuse a job's page where there is none, before anything is solved."""
        if self.step and not os.environ.get(_STEP_SUMMARY):
            msg = (
                f"--step-summary writes to the file that ${_STEP_SUMMARY} names, which"
                " is not set here; --summary FILE writes to any file"
            )
            raise typer.BadParameter(msg)

    def write(self, text: str) -> None:
        """Write the summary; the job's page may hold others, and keeps them."""
        if self.file is not None:
            write_content(self.file, text.encode("utf-8"))
            note(f"wrote {self.file}")
        if self.step:
            _append(Path(os.environ[_STEP_SUMMARY]), text)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        msg = f"{path}, which ${_STEP_SUMMARY} names: {error.strerror}"
        raise OptionError(msg) from error


def row_of(plan: Plan, state: str) -> PlanRow:
    """Return the row of a plan in a summary."""
    unplanned = plan.unplanned.duration_ns
    bound = plan.certificate.lower_bound_ns
    return PlanRow(
        name=plan.graph.name,
        budget_bytes=plan.budget_bytes,
        peak_bytes=plan.peak_bytes,
        overhead=plan.overhead,
        bound=bound / unplanned - 1 if unplanned else 0.0,
        gap=plan.gap,
        recomputations=plan.num_recomputations,
        state=state,
    )
