"""`encamp.plan/1`: plans as JSON, one step a line so that they differ line by line."""

from __future__ import annotations

import re

from encamp.errors import InvalidPlanError
from encamp.plan import (
    Certificate,
    Figures,
    GraphRef,
    Order,
    Plan,
    Robustness,
    SolverInfo,
    Status,
)

from .document import Limits, Node, one_line

SCHEMA = "encamp.plan/1"
GAP_TOLERANCE = 1e-3
"""How far a written gap may be from the one the durations give."""
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
_OUTLINE = re.compile(r"[0-9a-f]{12} .*", re.DOTALL)
_MAX_SEED = 2**64 - 1
_MAX_AMOUNT = 2**63 - 1
_MAX_RULES = 1000


def to_document(plan: Plan) -> str:
    """Return a plan as text, its outline and its steps last."""
    fields = to_fields(plan)
    steps = [str(step) for step in plan.steps]
    parts = [f"{one_line(key)}: {one_line(item)}" for key, item in fields.items()]
    if plan.outline:
        lines = [one_line(line) for line in plan.outline]
        parts.append('"outline": [' + ",\n  ".join(lines) + "]")
    parts.append('"steps": [' + ",\n  ".join(steps) + "]")
    return "{" + ",\n ".join(parts) + "}\n"


def to_fields(plan: Plan) -> dict[str, object]:
    """Return the document of a plan without its steps and outline, as plain data."""
    certificate: dict[str, object] = {
        "lower_bound_ns": plan.certificate.lower_bound_ns,
        "proved_by": plan.certificate.proved_by,
        "order": plan.certificate.order.value,
    }
    if plan.steps:
        certificate["gap"] = round(plan.gap, 6)
    if plan.certificate.rules:
        certificate["rules"] = list(plan.certificate.rules)
    if plan.certificate.robust is not None:
        certificate["robust"] = _robust_fields(plan.certificate.robust)
    solver = plan.solver
    return {
        "schema": SCHEMA,
        "graph": {
            "name": plan.graph.name,
            "structure": plan.graph.structure,
            "exact": plan.graph.exact,
        },
        "budget_bytes": plan.budget_bytes,
        "reserve_bytes": plan.reserve_bytes,
        "status": plan.status.value,
        "peak_bytes": plan.peak_bytes,
        "duration_ns": plan.duration_ns,
        "unplanned": {
            "peak_bytes": plan.unplanned.peak_bytes,
            "duration_ns": plan.unplanned.duration_ns,
        },
        "memory": dict(plan.memory),
        "certificate": certificate,
        "solver": {
            "encamp": solver.encamp,
            "ortools": solver.ortools,
            "seed": solver.seed,
            "seconds": float(solver.seconds),
            "stages": list(solver.stages),
        },
    }


def _robust_fields(robust: Robustness) -> dict[str, object]:
    return {
        "spread": robust.spread,
        "duration_ns": robust.duration_ns,
        "gap": round(robust.gap, 6),
    }


def from_document(root: Node, limits: Limits) -> Plan:
    """Return the plan that a document of this schema holds.

    Raises:
        WireError: it is not one; the message names the place.

    """
    root.fields(_REQUIRED, ("reserve_bytes", "memory", "outline"))
    reserve, memory = root.optional("reserve_bytes"), root.optional("memory")
    certificate, outline = root.child("certificate"), root.optional("outline")
    try:
        plan = Plan(
            graph=_graph(root.child("graph")),
            budget_bytes=_amount(root, "budget_bytes"),
            status=root.child("status").choice(Status),
            steps=_steps(root.child("steps"), limits),
            peak_bytes=_amount(root, "peak_bytes"),
            duration_ns=_amount(root, "duration_ns"),
            unplanned=_figures(root.child("unplanned")),
            certificate=_certificate(certificate),
            solver=_solver(root.child("solver")),
            reserve_bytes=reserve.integer(high=_MAX_AMOUNT) if reserve else 0,
            memory=_memory(memory) if memory else {},
            outline=_outline(outline, limits) if outline else (),
        )
    except InvalidPlanError as error:
        root.fail(str(error))
    _check_gap(certificate, plan)
    return plan


_REQUIRED = (
    "schema",
    "graph",
    "budget_bytes",
    "status",
    "steps",
    "peak_bytes",
    "duration_ns",
    "unplanned",
    "certificate",
    "solver",
)


def _amount(node: Node, field: str) -> int:
    return node.child(field).integer(high=_MAX_AMOUNT)


def _graph(node: Node) -> GraphRef:
    node.fields(("name", "structure", "exact"), ())
    return GraphRef(
        name=node.child("name").text(),
        structure=_fingerprint(node.child("structure")),
        exact=_fingerprint(node.child("exact")),
    )


def _fingerprint(node: Node) -> str:
    text = node.text()
    if not _FINGERPRINT.fullmatch(text):
        node.unexpected("'sha256:' and 64 hexadecimal digits")
    return text


def _steps(node: Node, limits: Limits) -> tuple[int, ...]:
    for step in node.items(limits.steps):
        if isinstance(step.value, dict):
            step.fail(
                "a step that is an object belongs to a schema newer than"
                f" {SCHEMA}, which knows op ids only; upgrade Encamp to read it"
            )
    return node.integers(limits.ops - 1, limits.steps)


def _outline(node: Node, limits: Limits) -> tuple[str, ...]:
    lines = []
    for item in node.items(limits.ops):
        if not _OUTLINE.fullmatch(item.text()):
            item.unexpected("12 hexadecimal digits and an op's target")
        lines.append(item.text())
    return tuple(lines)


def _figures(node: Node) -> Figures:
    node.fields(("peak_bytes", "duration_ns"), ())
    return Figures(_amount(node, "peak_bytes"), _amount(node, "duration_ns"))


def _certificate(node: Node) -> Certificate:
    node.fields(("lower_bound_ns", "proved_by", "order"), ("gap", "rules", "robust"))
    rules, robust = node.optional("rules"), node.optional("robust")
    return Certificate(
        lower_bound_ns=_amount(node, "lower_bound_ns"),
        proved_by=node.child("proved_by").text(),
        order=node.child("order").choice(Order),
        rules=tuple(rule.text() for rule in rules.items(_MAX_RULES)) if rules else (),
        robust=_robust(robust) if robust else None,
    )


def _robust(node: Node) -> Robustness:
    node.fields(("spread", "duration_ns", "gap"), ())
    spread = node.child("spread")
    if not 0 <= spread.number() < 1:
        spread.unexpected("a share from 0 to under 1")
    return Robustness(
        spread=spread.number(),
        duration_ns=_amount(node, "duration_ns"),
        gap=node.child("gap").number(),
    )


def _check_gap(node: Node, plan: Plan) -> None:
    found = node.optional("gap")
    if found is None:
        return
    # A bound above the duration makes it negative; that is for `check` to say.
    gap = found.number()
    if abs(gap - plan.gap) > GAP_TOLERANCE:
        found.unexpected(
            f"about {plan.gap:.6f}, as the durations and the bound have it"
        )


def _solver(node: Node) -> SolverInfo:
    node.fields(("encamp", "ortools", "seed", "seconds", "stages"), ())
    stages = node.child("stages").items(limit=1000)
    return SolverInfo(
        encamp=node.child("encamp").text(),
        ortools=node.child("ortools").text(),
        seed=node.child("seed").integer(high=_MAX_SEED),
        seconds=_seconds(node.child("seconds")),
        stages=tuple(stage.text() for stage in stages),
    )


def _seconds(node: Node) -> float:
    seconds = node.number()
    if seconds < 0:
        node.unexpected("seconds, at least 0")
    return seconds


def _memory(node: Node) -> dict[str, int]:
    return {kind: item.integer(high=_MAX_AMOUNT) for kind, item in node.children()}
