"""`encamp check`: whether a plan keeps the rules of its graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from encamp.budget import budget_bytes
from encamp.check import Rule, Violation
from encamp.check import check as violations_of
from encamp.plan import Plan
from encamp.units import format_bytes, format_duration
from encamp.wire import read_graph, read_plan

from .exits import Exit
from .options import GraphFile, Json, PlanFile
from .output import count, print_json, print_lines

_OTHER_GRAPH = {Rule.OTHER_STRUCTURE, Rule.OTHER_EXACT}


def check(
    graph_file: GraphFile,
    plan_file: PlanFile,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Instead of the plan's own budget."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a plan against its graph, apart from what made it.

    Availability of every input, phase order, pinned ops, outputs, the peak under the
    budget, and every figure the plan states. Exits 4 for a plan of another graph or
    over the budget, 6 for one that breaks another rule.
    """
    graph, plan = read_graph(graph_file), read_plan(plan_file)
    limit = None if budget is None else budget_bytes(graph, budget)
    violations = violations_of(graph, plan, limit)
    if as_json:
        found = [asdict(violation) for violation in violations]
        print_json({"ok": not found, "violations": found})
    else:
        print_lines(_lines(plan, violations))
    raise typer.Exit(_exit(violations))


def _exit(violations: tuple[Violation, ...]) -> Exit:
    broken = {violation.kind for violation in violations}
    if not broken:
        return Exit.DONE
    if broken & _OTHER_GRAPH or broken == {Rule.OVER_BUDGET}:
        return Exit.STALE
    return Exit.FAILED


def _lines(plan: Plan, violations: tuple[Violation, ...]) -> list[str]:
    if violations:
        broken = [f"  {v.kind}: {v.message}" for v in violations]
        return [f"{count(len(violations), 'violation')}:", *broken]
    steps, peak = count(len(plan.steps), "step"), format_bytes(plan.peak_bytes)
    return [f"ok: {steps}, peak {peak}, {format_duration(plan.duration_ns)}"]
