"""Turning what a solve found into plans and messages about the graph's own names."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from encamp import __version__
from encamp.check import check
from encamp.errors import InternalError, PeakSite
from encamp.fingerprint import exact, outline, structure
from encamp.graph import CostGraph, Op
from encamp.plan import Certificate, Figures, GraphRef, Plan, SolverInfo, Status
from encamp.replay import Timeline, breakdown, replay
from encamp.units import format_bytes

from .jit import IntArray
from .progress import Progress

_SHOWN = 5
"""How many values a peak site names."""


def plan_of(
    graph: CostGraph,
    steps: IntArray,
    progress: Progress,
    *,
    budget_bytes: int,
    reserve_bytes: int = 0,
) -> Plan:
    """Return the plan of a schedule, with what the solve proved, after a check.

    Raises:
        InternalError: the independent check finds a rule broken.

    """
    timeline = replay(graph, tuple(steps.tolist()))
    unplanned = replay(graph)
    order, proof = progress.strongest
    lower = unplanned.duration_ns + proof.added_ns
    plan = Plan(
        graph=GraphRef(graph.name, structure(graph), exact(graph)),
        budget_bytes=budget_bytes,
        reserve_bytes=reserve_bytes,
        status=Status.OPTIMAL if timeline.duration_ns == lower else Status.FEASIBLE,
        steps=timeline.steps,
        peak_bytes=timeline.peak_bytes,
        duration_ns=timeline.duration_ns,
        unplanned=Figures(unplanned.peak_bytes, unplanned.duration_ns),
        certificate=Certificate(lower, proof.method, order),
        solver=SolverInfo(
            encamp=__version__,
            ortools=version("ortools"),
            seed=progress.options.seed,
            seconds=round(progress.clock.seconds, 3),
            stages=tuple(progress.stages),
        ),
        memory=breakdown(graph, timeline),
        outline=outline(graph),
    )
    _require_valid(graph, plan)
    return plan


def _require_valid(graph: CostGraph, plan: Plan) -> None:
    broken = check(graph, plan, plan.budget_bytes)
    if broken:
        msg = (
            f"the planner made a plan of {graph.name!r} that breaks a rule:"
            f" {broken[0].message}; please report this with the graph"
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
    """Return an op's name with its module and source line, as far as known."""
    known = ", ".join(part for part in (place.module, place.source) if part)
    return f"{place.op} ({known})" if known else place.op
