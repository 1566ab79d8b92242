"""Graphs that solvers were published with: their results beside Encamp's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.registry import Case, Missing, Table, driver
from benchmarks.text import percent, seconds
from encamp.budget import budget_bytes
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.plan import Order, Plan, Status
from encamp.planner import Options, min_budget, solve

_SHARES = (90, 80, 70)
_LOWER: Mapping[str, tuple[int, ...]] = {
    "rl3": (65,),
    "rl4": (65,),
    "cm2_resnet50": (50, 40, 25, 15),
}
_SMALLEST_S = 10.0
_PUBLISHED: Mapping[tuple[str, int], tuple[str, str, str]] = {
    ("rl1", 90): ("0.8", "0.8", "0.0"),
    ("rl1", 80): ("2.3", "2.3", "0.3"),
    ("rl1", 70): ("-", "-", "2.2"),
    ("rl2", 90): ("0.9", "0.9", "0.0"),
    ("rl2", 80): ("none", "4.9", "0.0"),
    ("rl2", 70): ("-", "-", "2.6"),
    ("rl3", 90): ("none", "0.7", "0.03"),
    ("rl3", 80): ("none", "3.4", "2.3"),
    ("rl3", 70): ("-", "-", "4.8 at 73.5 %"),
    ("rl4", 90): ("none", "0.7", "0.4"),
    ("rl4", 80): ("none", "3.4", "2.5"),
    ("rl4", 70): ("-", "-", "7.4"),
    ("cm1_fcn8", 90): ("0.0", "0.0", "0.1"),
    ("cm1_fcn8", 80): ("0.1", "0.1", "0.1"),
    ("cm1_fcn8", 70): ("-", "-", "3.0"),
    ("cm2_resnet50", 90): ("0.1", "0.2", "0.2"),
    ("cm2_resnet50", 80): ("0.3", "0.3", "0.4"),
    ("cm2_resnet50", 70): ("-", "-", "0.8"),
}
"""Added time in percent by Checkmate's program (Gurobi), MOCCASIN (CP-SAT) and FastSA,
as in the papers of the last two; none: no schedule within its time limit."""
_OPTIMA: Mapping[str, Mapping[int, str]] = {
    "rl1": {90: "0.789", 80: "2.296"},
    "cm1_fcn8": {90: "0.029", 80: "0.136"},
    "cm2_resnet50": {90: "0.108"},
    "cm_mobilenet": {90: "0.163", 80: "0.370"},
    "cm_segnet": {90: "0.103", 80: "0.207", 60: "0.423"},
    "cm_unet": {90: "1.129", 80: "1.984", 60: "4.451"},
    "cm_vgg19": {90: "0.104", 80: "2.756"},
    "cm_vgg16": {90: "1.968"},
}
"""Least added time in percent, as Checkmate's program proved it on HiGHS (through
OR-Tools 9.15, in 1 to 589 s on two cores); first runs are in the graph's order."""


@driver("published")
def published(cases: Sequence[Case]) -> Table:
    """Plan each graph at the budgets of the papers and below."""
    return Table(
        title="Public graphs against published results",
        what=(
            "Added time at shares of the peak of the graph's own order, with default"
            " options. Checkmate and MOCCASIN keep that order, FastSA does not. The"
            " bound holds for every order where it says so, else for plans that keep"
            " the graph's. Where a plan's added time is its bound it is optimal. The"
            " last row of a graph is the smallest budget found in"
            f" {_SMALLEST_S:.0f} s; none fits less than the share in brackets."
        ),
        columns=(
            *("graph", "ops", "budget", "Checkmate", "MOCCASIN", "FastSA"),
            *("Encamp", "bound", "holds for", "solved in"),
        ),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


@driver("fixed-order")
def fixed_order(cases: Sequence[Case]) -> Table:
    """Plan each graph in its own order at the budgets of known optima."""
    return Table(
        title="Known optima of a fixed order",
        what=(
            "Added time with `--fixed-order`, beside the least that Checkmate's integer"
            " program proves for schedules whose first runs are in the graph's order."
            " Where the bound is less than the added time, Encamp does not prove it."
        ),
        columns=("graph", "ops", "budget", "least", "Encamp", "bound", "solved in"),
        rows=tuple(row for case in cases for row in _fixed(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    try:
        graph = case.graph()
    except Missing as missing:
        yield case.name, f"not measured: {missing}", *("-",) * 8
        return
    head = (case.name, f"{len(graph.ops):,}")
    for share in (*_SHARES, *_LOWER.get(case.name, ())):
        others = _PUBLISHED.get((case.name, share), ("-",) * 3)
        yield (*head, f"{share} %", *others, *_figures(graph, share, Options()))
    yield (*head, *_smallest(graph))


def _fixed(case: Case) -> Iterator[tuple[str, ...]]:
    try:
        graph = case.graph()
    except Missing as missing:
        yield case.name, f"not measured: {missing}", *("-",) * 5
        return
    head, fixed = (case.name, f"{len(graph.ops):,}"), Options(fixed_order=True)
    for share, least in _OPTIMA.get(case.name, {80: "-"}).items():
        added, bound, _, taken = _figures(graph, share, fixed)
        yield (*head, f"{share} %", least, added, bound, taken)


def _figures(graph: CostGraph, share: int, options: Options) -> tuple[str, ...]:
    """Return added time, bound, which order that holds for, and seconds."""
    try:
        plan = solve(graph, budget_bytes(graph, f"peak*{share / 100}"), options=options)
    except InfeasibleError as error:
        proved = error.bound_bytes > error.budget_bytes
        return "infeasible" if proved else "none found", "-", "-", "-"
    except NoPlanError:
        return "none found", "-", "-", "-"
    return _added(plan), _bound(plan), _order(plan), seconds(plan.solver.seconds)


def _smallest(graph: CostGraph) -> tuple[str, ...]:
    found = min_budget(graph, options=Options(time_limit_s=_SMALLEST_S))
    plan, peak = found.plan, found.plan.unplanned.peak_bytes
    budget, proved = found.budget_bytes / peak, found.bound_bytes / peak
    return (
        f"{percent(budget, 1)} ({percent(proved, 1)})",
        *("-",) * 3,
        _added(plan),
        _bound(plan),
        _order(plan),
        seconds(plan.solver.seconds),
    )


def _added(plan: Plan) -> str:
    return f"{100 * plan.overhead:.3f}"


def _bound(plan: Plan) -> str:
    """Return the proven least added time in percent, or that it is reached."""
    if plan.status is Status.OPTIMAL:
        return "optimal"
    proved = plan.certificate.lower_bound_ns / plan.unplanned.duration_ns - 1
    return f"{100 * proved:.3f}"


def _order(plan: Plan) -> str:
    return "every order" if plan.certificate.order is Order.FREE else "the graph's"
