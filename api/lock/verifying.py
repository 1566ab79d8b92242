"""Whether a lock still holds: each plan is there, as it was locked, and still fits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from encamp import fingerprint
from encamp.budget import budget_bytes
from encamp.check import Rule as Broken
from encamp.check import Violation, check
from encamp.errors import OptionError, UnitError, WireError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.units import format_bytes
from encamp.wire import plan_from_json, read_graph
from encamp.wire.document import Node
from encamp.wire.files import read_content

from .document import Locked, digest_of
from .facts import PlanFacts, share_added

_MAX_PLAN_BYTES = 2**30
_ROUNDING = 1e-9


class Trouble(StrEnum):
    """Why a lock does not hold."""

    NOT_LOCKED = "not locked"
    MISSING = "missing"
    STALE = "stale"
    CORRUPT = "corrupt"
    OVER_BUDGET = "over budget"
    GROWN = "overhead grown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason, the graph's name and the place in the lock file, such as $.plans."""

    kind: Trouble
    graph: str
    at: str
    message: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of one entry of a lock file.

    `overhead` is that of the locked plan replayed on the graph in hand; None where
    that cannot be. `before` is the one it is compared with.
    """

    name: str
    locked: Locked
    findings: tuple[Finding, ...]
    before: float
    overhead: float | None = None


def verify(
    name: str,
    locked: Locked,
    folder: Path,
    *,
    base: Locked | None = None,
    max_growth: float = 0.0,
) -> Verified:
    """Verify an entry of the lock file in `folder`.

    Its plan may add at most `max_growth` of the unplanned step to what it, or the
    entry `base` of another lock file, added.
    """
    before = (base or locked).facts.overhead
    entry = _Entry(name, locked, folder)
    graph, plan = entry.graph(), entry.plan()
    overhead = None
    if graph is not None and plan is not None:
        overhead = entry.lay_over(graph, plan)
    if overhead is not None and overhead > before + max_growth + _ROUNDING:
        entry.grown(before, overhead, max_growth)
    return Verified(name, locked, tuple(entry.findings), before, overhead)


class _Entry:
    """One entry under verification, and what was found."""

    def __init__(self, name: str, locked: Locked, folder: Path) -> None:
        self.name = name
        self.locked = locked
        self.folder = folder
        self.findings: list[Finding] = []

    def graph(self) -> CostGraph | None:
        """Return the graph in hand, or note why there is none."""
        path = self.folder / self.locked.graph_path
        if not path.exists():
            self._note(Trouble.MISSING, "graph.path", f"no such graph: {path}")
            return None
        try:
            return read_graph(path)
        except WireError as error:
            self._note(Trouble.CORRUPT, "graph.path", str(error))
            return None

    def plan(self) -> Plan | None:
        """Return the plan as it was locked, or note why it is none."""
        path = self.folder / self.locked.plan_path
        if not path.exists():
            self._note(Trouble.MISSING, "plan.path", f"no such plan: {path}")
            return None
        try:
            content = read_content(path, _MAX_PLAN_BYTES)
            plan = plan_from_json(content, source=str(path))
        except WireError as error:
            self._note(Trouble.CORRUPT, "plan.path", str(error))
            return None
        found = digest_of(content)
        if found != self.locked.plan_digest:
            self._note(
                Trouble.CORRUPT,
                "plan.digest",
                f"{path} is {found}, not the plan that was locked",
            )
            return None
        return plan if self._is_as_locked(plan) else None

    def lay_over(self, graph: CostGraph, plan: Plan) -> float | None:
        """Note what the plan breaks on a graph; return what it adds to its step."""
        if not self._is_same(graph):
            return None
        self._compare_options(graph, plan)
        broken = check(graph, plan.steps, plan.budget_bytes - plan.reserve_bytes)
        for violation in broken:
            self._broken(violation)
        duration = sum(graph.ops[op].duration_ns for op in plan.steps)
        return share_added(duration, graph.duration_ns)

    def _is_same(self, graph: CostGraph) -> bool:
        """Note a graph other than the locked one; return whether it is the same."""
        facts = self.locked.facts
        if fingerprint.structure(graph) != facts.structure:
            text = "the graph has another structure than the one that was planned"
            self._note(Trouble.STALE, "graph.structure", f"{text}; plan it again")
            return False
        if fingerprint.exact(graph) != facts.exact:
            text = "the graph has other shapes or bytes than the one that was planned"
            self._note(Trouble.STALE, "graph.exact", f"{text}; plan it again")
            return False
        return True

    def grown(self, before: float, now: float, most: float) -> None:
        """Note that the plan adds more time than it may."""
        text = (
            f"the plan adds {now * 100:.2f} % to the step, {before * 100:.2f} % before:"
            f" {(now - before) * 100:.2f} points more, {most * 100:.2f} are allowed"
        )
        self._note(Trouble.GROWN, "plan.overhead", text)

    def _is_as_locked(self, plan: Plan) -> bool:
        """Note each figure that the lock file states otherwise than the plan."""
        wrong = list(self.locked.facts.differences(PlanFacts.of(plan)))
        for place, ours, theirs in wrong:
            text = f"the lock file says {ours!r}, the plan has {theirs!r}"
            self._note(Trouble.CORRUPT, place, text)
        return not wrong

    def _compare_options(self, graph: CostGraph, plan: Plan) -> None:
        choices = self.locked.choices
        for name, has in (
            ("budget", plan.budget_bytes),
            ("reserve", plan.reserve_bytes),
        ):
            self._compare_size(graph, name, getattr(choices, name), has)
        if choices.seed != plan.solver.seed:
            text = f"the plan was made with seed {plan.solver.seed}"
            self._note(Trouble.STALE, "options.seed", text)
        try:
            rules = rules_of(choices.keep, choices.recompute)
        except OptionError as error:
            self._note(Trouble.CORRUPT, "options", str(error))
            return
        if rules != plan.certificate.rules:
            made = ", ".join(plan.certificate.rules) or "none"
            text = f"the plan was made with other rules: {made}"
            self._note(Trouble.STALE, "options.keep", text)

    def _compare_size(self, graph: CostGraph, name: str, text: str, has: int) -> None:
        try:
            size = budget_bytes(graph, text)
        except UnitError as error:
            self._note(Trouble.CORRUPT, f"options.{name}", str(error))
            return
        if size != has:
            told = (
                f"{text!r} is {format_bytes(size)} on this graph, the plan was made"
                f" for {format_bytes(has)}; plan it again"
            )
            self._note(Trouble.STALE, f"options.{name}", told)

    def _broken(self, violation: Violation) -> None:
        over = violation.kind is Broken.OVER_BUDGET
        kind = Trouble.OVER_BUDGET if over else Trouble.CORRUPT
        self._note(kind, "plan.path", violation.message)

    def _note(self, kind: Trouble, place: str, message: str) -> None:
        at = f"{place_of(self.name)}.{place}"
        self.findings.append(Finding(kind, self.name, at, message))


def place_of(name: str) -> str:
    """Return where the entry of a graph stands in a lock file."""
    return Node(None, "", Node(None, "", Node(None, ""), "plans"), name).path


def rules_of(keep: tuple[str, ...], recompute: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules of options, as a plan's certificate names them."""
    from encamp.planner import Action, Rule  # noqa: PLC0415 - loads the planner

    kept = [str(Rule.parse(Action.KEEP, text)) for text in keep]
    return (*kept, *(str(Rule.parse(Action.RECOMPUTE, text)) for text in recompute))
