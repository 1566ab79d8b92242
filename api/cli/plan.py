"""`encamp plan`: the cheapest step that stays under a budget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from encamp.api.lock import Choices
from encamp.api.lock.locking import Solve
from encamp.api.plan_table import markdown
from encamp.errors import InfeasibleError
from encamp.plan import Plan
from encamp.wire import read_graph, write_plan

from .documents import plan_document
from .lock import LockRequest, lock
from .options import Again, FixedOrder, Json, Keep, SearchTime, SearchWork, Seed
from .output import note, print_json, print_lines
from .plan_summary import plan_lines
from .planning import SummaryTo, row_of, solve_here

_SECONDS = 60.0
_PLANS = "plans"


def plan(
    graph_files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="GRAPH...",
            help="A graph: .json or .json.zst; several with --lock.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", help="Peak memory of the step, e.g. 16GiB.", show_default=False
        ),
    ] = None,
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
    fixed_order: FixedOrder = False,
    seed: Seed = 0,
    time_limit: SearchTime = None,
    work_limit: SearchWork = None,
    lock_file: Annotated[
        Path | None,
        typer.Option(
            "--lock",
            metavar="FILE",
            help="Keep the plans, and how they were made, in a lock file. Without"
            " graphs: those it holds.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="With --lock: verify, make and write no plan."),
    ] = False,
    plans: Annotated[
        str,
        typer.Option(
            "--plans",
            metavar="DIR",
            help="With --lock: where new plans go, seen from the lock file.",
        ),
    ] = _PLANS,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base",
            metavar="FILE",
            help="With --check: the lock file that added time is compared with.",
            show_default=False,
        ),
    ] = None,
    max_growth: Annotated[
        str | None,
        typer.Option(
            "--max-growth",
            metavar="SHARE",
            help="With --check: how much of the unplanned step a plan may add over what"
            " it added; 0% unless given.",
            show_default=False,
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE", help="Write a table in Markdown."),
    ] = None,
    step_summary: Annotated[
        bool,
        typer.Option(
            "--step-summary", help="Append it to the file $GITHUB_STEP_SUMMARY names."
        ),
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Solve on a planning service; what it returns is checked here.",
            show_default=False,
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="With --server: holds the API key; else $ENCAMP_KEY does.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Find the cheapest schedule of a graph under a byte budget.

    Exits 3 if nothing fits, and then names the smallest budget that does; 7 if the
    end of the search came before any plan. Ctrl-C ends it with the best plan so far.

    With --lock it plans the graphs whose plans no longer hold. With --check it exits 4
    if a plan is missing, stale, corrupt or over its budget, or adds more time than it
    did; 2 if the lock file itself is damaged.

    With --server it exits 5 if the service refuses or does not answer.
    """
    if steps and (not as_json or lock_file is not None):
        msg = "--steps goes with --json, for one plan; -o writes the whole plan"
        raise typer.BadParameter(msg)
    graph_files = graph_files or []
    choices = _choices(
        budget,
        Choices(
            budget=budget or "",
            reserve=reserve,
            seed=seed,
            time_limit_s=_seconds(time_limit, work_limit),
            work_limit=work_limit,
            keep=tuple(keep or ()),
            recompute=tuple(recompute or ()),
            robust=robust,
            fixed_order=fixed_order,
        ),
    )
    to, solve = SummaryTo(summary, step_summary), _solver(server, key_file)
    if lock_file is None:
        given = {"--check": check, "--base": base, "--max-growth": max_growth}
        _require_lock([name for name, value in given.items() if value])
        found = _plan_one(_only(graph_files), choices, solve, as_json=as_json)
        if output is not None:
            write_plan(found, output)
            note(f"wrote {output}")
        to.write(markdown([row_of(found, "planned")]))
        _print(found, whole=steps, as_json=as_json)
        return
    if output is not None:
        msg = "-o writes one plan; with --lock, --plans says where they go"
        raise typer.BadParameter(msg)
    lock(
        LockRequest(
            file=lock_file,
            graph_files=graph_files,
            choices=choices,
            solve=solve,
            check=check,
            plans=plans,
            base=base,
            max_growth=max_growth,
            summary=to,
            as_json=as_json,
        )
    )


def _seconds(time_limit: float | None, work_limit: int | None) -> float | None:
    if time_limit is not None and work_limit is not None:
        msg = "--time-limit and --work-limit exclude each other"
        raise typer.BadParameter(msg)
    return _SECONDS if time_limit is None and work_limit is None else time_limit


def _choices(budget: str | None, given: Choices) -> Choices | None:
    """Return what a search was asked for with, None where nothing was."""
    if budget is not None:
        return given
    if given != Choices(budget=""):
        msg = "Missing option '--budget', with which the other options go"
        raise typer.BadParameter(msg)
    return None


def _require_lock(given: list[str]) -> None:
    if given:
        msg = f"{given[0]} goes with --lock FILE"
        raise typer.BadParameter(msg)


def _only(graph_files: list[Path]) -> Path:
    if len(graph_files) != 1:
        found = f"{len(graph_files)} were given" if graph_files else "none was given"
        msg = f"name one graph to plan; {found}. Several go with --lock FILE"
        raise typer.BadParameter(msg)
    return graph_files[0]


def _solver(server: str | None, key_file: Path | None) -> Solve:
    """Return what solves: a service, or this process."""
    if server is None and key_file is not None:
        msg = "--key-file goes with --server URL"
        raise typer.BadParameter(msg)
    if server is None:
        return solve_here
    from .remote import Remote  # noqa: PLC0415 - loads the HTTP client

    return Remote(server, key_file).solve


def _plan_one(
    graph_file: Path, choices: Choices | None, solve: Solve, *, as_json: bool
) -> Plan:
    if choices is None:
        msg = "Missing option '--budget': how much memory the step may take"
        raise typer.BadParameter(msg)
    try:
        return solve(read_graph(graph_file), choices)
    except InfeasibleError as error:
        if as_json:
            print_json(_infeasible(error))
        raise


def _print(found: Plan, *, whole: bool, as_json: bool) -> None:
    if as_json:
        print_json(plan_document(found, whole=whole))
    else:
        print_lines(plan_lines(found))


def _infeasible(error: InfeasibleError) -> dict[str, object]:
    return {
        "status": "infeasible",
        "budget_bytes": error.budget_bytes,
        "smallest_bytes": error.smallest_bytes,
        "bound_bytes": error.bound_bytes,
        "peak": None if error.site is None else asdict(error.site),
    }
