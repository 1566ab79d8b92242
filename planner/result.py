"""Turning what a solve found into plans and messages about the graph's own names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from encamp import __version__
from encamp.check import check
from encamp.errors import InternalError, PeakSite
from encamp.fingerprint import exact, outline, structure
from encamp.graph import CostGraph, Op
from encamp.plan import Certificate, Figures, GraphRef, Plan, SolverInfo, Status
from encamp.replay import Timeline, breakdown, replay
from encamp.units import format_bytes

from .progress import Progress
from .robust import robustness

if TYPE_CHECKING:  # it describes its graph by what is here
    from .task import Task

_SHOWN = 5
"""How many values a peak site names."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a plan says of its graph, whatever its steps."""

    ref: GraphRef
    outline: tuple[str, ...]
    unplanned: Figures


def describe(graph: CostGraph) -> Description:
    """Return the description of a graph. Linear in it."""
    unplanned = replay(graph)
    return Description(
        GraphRef(graph.name, structure(graph), exact(graph)),
        outline(graph),
        Figures(unplanned.peak_bytes, unplanned.duration_ns),
    )


def plan_of(
    task: Task,
    progress: Progress,
    *,
    budget_bytes: int,
    reserve_bytes: int = 0,
) -> Plan:
    """Return the plan of the best schedule, with what was proved, after a check.

    Raises:
        InternalError: the independent check finds a rule broken.

    """
    assert progress.best is not None  # noqa: S101 - callers ask for a plan they have
    graph, known = task.graph, task.description
    timeline = replay(graph, tuple(progress.best.tolist()))
    order, proof = progress.strongest
    lower = known.unplanned.duration_ns + proof.added_ns
    plan = Plan(
        graph=known.ref,
        budget_bytes=budget_bytes,
        reserve_bytes=reserve_bytes,
        status=Status.OPTIMAL if timeline.duration_ns == lower else Status.FEASIBLE,
        steps=timeline.steps,
        peak_bytes=timeline.peak_bytes,
        duration_ns=timeline.duration_ns,
        unplanned=known.unplanned,
        certificate=Certificate(
            lower,
            proof.method,
            order,
            rules=tuple(map(str, task.options.rules)),
            robust=robustness(task.cuts, progress, progress.best),
        ),
        solver=SolverInfo(
            encamp=__version__,
            ortools=version("ortools"),
            seed=progress.options.seed,
            seconds=round(progress.clock.seconds, 3),
            stages=tuple(progress.stages),
        ),
        memory=breakdown(graph, timeline),
        outline=known.outline,
    )
    _require_valid(task, plan, timeline)
    return plan


def _require_valid(task: Task, plan: Plan, timeline: Timeline) -> None:
    broken = check(task.graph, plan, plan.budget_bytes)
    problems = [violation.message for violation in broken]
    if held := task.obedience.broken_by(timeline):
        values = ", ".join(task.graph.describe(value) for value in sorted(held))
        problems.append(f"it holds at the first backward step: {values}")
    if problems:
        msg = (
            f"the planner made a plan of {task.graph.name!r} that breaks a rule:"
            f" {problems[0]}; please report this with the graph"
        )
        raise InternalError(msg)


def peak_site(graph: CostGraph, timeline: Timeline) -> PeakSite:
    """Return the op at the peak of a schedule and the largest values live there."""
    op = graph.ops[timeline.steps[timeline.peak_step]]
    live = timeline.live(timeline.peak_step)
    return site(graph, op, live, timeline.peak_bytes)


def site(graph: CostGraph, op: Op, values: Iterable[int], held: int) -> PeakSite:
    """Return the site of an op with `held` bytes, naming the largest of `values`."""
    largest = sorted(values, key=lambda v: (-graph.values[v].bytes, v))
    return PeakSite(
        op=op.name,
        module=op.module,
        source=op.source,
        values=tuple(_sized(graph, value) for value in largest[:_SHOWN]),
        bytes=held,
    )


def _sized(graph: CostGraph, value: int) -> str:
    return f"{graph.describe(value)}: {format_bytes(graph.values[value].bytes)}"


def where(place: PeakSite) -> str:
    """Return the op of a site with its module and source line, as far as known."""
    return located(place.op, place.module, place.source)


def located(name: str, module: str | None, source: str | None) -> str:
    """Return an op's name with its module and source line, as far as known."""
    known = ", ".join(part for part in (module, source) if part)
    return f"{name} ({known})" if known else name
