"""What `encamp plan` and `encamp show PLAN` tell about a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from encamp.graph import CostGraph, Op
from encamp.plan import Plan
from encamp.units import format_bytes, format_duration

from .graph_summary import memory_lines, random_ops
from .output import count, fields, percent, table

_MOST = 8


@dataclass(frozen=True, slots=True)
class Repeated:
    """A module, operator or op: how often it runs again and how long that takes."""

    name: str
    runs: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What a plan runs again, found by laying it over its graph.

    `modules`, `operators` and `ops` are sorted by the time they add. `random` says for
    each op that draws random numbers whether its draw is "saved" or "replayed".
    """

    modules: tuple[Repeated, ...]
    operators: tuple[Repeated, ...]
    ops: tuple[Repeated, ...]
    random: dict[str, str]


def plan_lines(plan: Plan) -> list[str]:
    """Return a plan's figures for people."""
    lines = [plan.graph.name, *fields(_figures(plan))]
    if plan.memory:
        lines += ["", "memory at the peak", *memory_lines(dict(plan.memory))]
    return lines


def recomputation(plan: Plan, graph: CostGraph) -> Recomputation:
    """Say what the plan runs again; linear in steps and graph."""
    again = Counter(plan.steps)
    again.subtract(set(plan.steps))
    repeated = [(graph.ops[op], runs) for op, runs in again.items() if runs]
    return Recomputation(
        modules=_grouped([(op.module, op, n) for op, n in repeated if op.module]),
        operators=_grouped([(op.target, op, n) for op, n in repeated]),
        ops=_grouped([(_op_name(op), op, n) for op, n in repeated]),
        random={
            _op_name(op): "replayed" if again[op.id] else "saved"
            for op in random_ops(graph)
        },
    )


def recomputation_lines(again: Recomputation) -> list[str]:
    """Return what is run again, and what becomes of random draws, for people."""
    lines: list[str] = []
    groups = (("modules", again.modules), ("operators", again.operators))
    for title, repeated in groups:
        if repeated:
            lines += ["", f"most recomputed {title}", *_repeated_lines(repeated)]
    if again.random:
        fates = Counter(again.random.values()).most_common()
        told = ", ".join(f"{number:,} {fate}" for fate, number in fates)
        lines += ["", f"random ops: {told}", *table(again.random.items())]
    return lines


def _figures(plan: Plan) -> list[tuple[str, str]]:
    budget = format_bytes(plan.budget_bytes)
    if plan.reserve_bytes:
        budget += f", {format_bytes(plan.reserve_bytes)} of it in reserve"
    if not plan.steps:
        return [("status", str(plan.status)), ("budget", budget), _made_by(plan)]
    return [
        ("status", f"{plan.status}: {_proof(plan)}"),
        *[("rule", rule) for rule in plan.certificate.rules],
        ("budget", budget),
        ("peak", _peak(plan)),
        ("step", _step(plan)),
        ("recomputed", _recomputed(plan)),
        *_robust(plan),
        _made_by(plan),
    ]


def _peak(plan: Plan) -> str:
    unplanned = plan.unplanned.peak_bytes
    share = plan.peak_bytes / unplanned if unplanned else 1.0
    return (
        f"{format_bytes(plan.peak_bytes)}, {percent(share)} of the unplanned"
        f" {format_bytes(unplanned)}"
    )


def _step(plan: Plan) -> str:
    return (
        f"{format_duration(plan.duration_ns)}, {plan.overhead * 100:+.2f} % on the"
        f" unplanned {format_duration(plan.unplanned.duration_ns)}"
    )


def _proof(plan: Plan) -> str:
    proof = plan.certificate
    orders = "in any order" if proof.order == "free" else "in the given order"
    bound = format_duration(proof.lower_bound_ns)
    return (
        f"no schedule {orders} is below {bound} (gap {percent(plan.gap)}, proved by"
        f" {proof.proved_by})"
    )


def _robust(plan: Plan) -> list[tuple[str, str]]:
    known = plan.certificate.robust
    if known is None:
        return []
    promise = "within" if known.gap <= plan.gap + known.spread else "not within"
    text = (
        f"with durations off by {percent(known.spread)}: at most"
        f" {format_duration(known.duration_ns)} and a gap of {percent(known.gap)},"
        f" {promise} the gap above plus that share"
    )
    return [("robust", text)]


def _recomputed(plan: Plan) -> str:
    again = sum(1 for runs in Counter(plan.steps).values() if runs > 1)
    ops = len(set(plan.steps))
    return f"{again:,} of {count(ops, 'op')} in {plan.num_recomputations:,} extra runs"


def _made_by(plan: Plan) -> tuple[str, str]:
    made = plan.solver
    stages = f" ({', '.join(made.stages)})" if made.stages else ""
    seconds = f"{made.seconds:.1f} s{stages}"
    versions = f"encamp {made.encamp}, OR-Tools {made.ortools}"
    return "made by", f"{versions}, seed {made.seed}, in {seconds}"


def _grouped(rows: list[tuple[str, Op, int]]) -> tuple[Repeated, ...]:
    runs: Counter[str] = Counter()
    added: Counter[str] = Counter()
    for name, op, number in rows:
        runs[name] += number
        added[name] += number * op.duration_ns
    groups = [Repeated(name, runs[name], added[name]) for name in runs]
    return tuple(sorted(groups, key=lambda g: (-g.duration_ns, g.name)))


def _op_name(op: Op) -> str:
    return f"{op.name} of {op.module}" if op.module else op.name


def _repeated_lines(groups: tuple[Repeated, ...]) -> list[str]:
    rows = [
        (format_duration(g.duration_ns), f"{g.runs:,}", g.name) for g in groups[:_MOST]
    ]
    lines = table([("adds", "runs", "name"), *rows], right=">>")
    rest = len(groups) - _MOST
    return [*lines, f"  and {rest:,} more"] if rest > 0 else lines
