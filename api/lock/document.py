"""`encamp.lock/1`: a lock file as JSON, read strictly and written one fact a line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType

from encamp.plan import Status
from encamp.wire.document import Node, parse
from encamp.wire.files import read_content, write_content

from .facts import Choices, PlanFacts

LOCK_SCHEMA = "encamp.lock/1"
_MAX_FILE_BYTES = 2**26
_MAX_TEXTS = 10_000
_MAX_AMOUNT = 2**63 - 1
_OVERHEAD_TOLERANCE = 1e-5
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ENTRY = ("graph", "options", "plan", "unplanned", "made_by")
_OPTIONS = ("budget", "reserve", "seed", "keep", "recompute")
_LIMITS = ("time_limit_s", "work_limit", "robust")
_PLAN_INTEGERS = (
    "budget_bytes",
    "reserve_bytes",
    "peak_bytes",
    "duration_ns",
    "lower_bound_ns",
    "recomputations",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One graph with its plan; both paths are relative to the lock file's folder."""

    graph_path: str
    plan_path: str
    plan_digest: str
    choices: Choices
    facts: PlanFacts


@dataclass(frozen=True, slots=True)
class Lock:
    """The plans of a lock file by the names of their graphs."""

    plans: Mapping[str, Locked] = field(default_factory=lambda: MappingProxyType({}))

    def with_plans(self, more: Mapping[str, Locked]) -> Lock:
        """Return a lock that holds `more` beside, or instead of, what is there."""
        return Lock({**self.plans, **more})


def digest_of(content: bytes) -> str:
    """Return "sha256:..." of a plan's document, as the service has it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def read_lock(path: str | PathLike[str]) -> Lock:
    """Return what a lock file holds.

    Raises:
        WireError: it cannot be read or is no such document; the message names the
            place in it.

    """
    content = read_content(Path(path), _MAX_FILE_BYTES)
    root = parse(content, fspath(path))
    if "schema" not in root.mapping():
        root.fail(f"missing field 'schema', expected {LOCK_SCHEMA}")
    if root.child("schema").text() != LOCK_SCHEMA:
        root.child("schema").unexpected(
            f"{LOCK_SCHEMA}, the lock files that this Encamp reads"
        )
    root.fields(("schema", "plans"), ())
    return Lock({name: _locked(node) for name, node in root.child("plans").children()})


def write_lock(lock: Lock, path: str | PathLike[str]) -> None:
    """Write a lock file, its plans by name; the same lock gives the same text.

    Raises:
        WireError: it cannot be written; what was there is untouched.

    """
    plans = {name: _entry(lock.plans[name]) for name in sorted(lock.plans)}
    document = {"schema": LOCK_SCHEMA, "plans": plans}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_content(Path(path), text.encode("utf-8"))


def _entry(locked: Locked) -> dict[str, object]:
    facts, choices = locked.facts, locked.choices
    return {
        "graph": {
            "path": locked.graph_path,
            "structure": facts.structure,
            "exact": facts.exact,
        },
        "options": {
            "budget": choices.budget,
            "reserve": choices.reserve,
            "seed": choices.seed,
            "time_limit_s": choices.time_limit_s,
            "work_limit": choices.work_limit,
            "keep": list(choices.keep),
            "recompute": list(choices.recompute),
            "robust": choices.robust,
            "fixed_order": choices.fixed_order,
        },
        "plan": {
            "path": locked.plan_path,
            "digest": locked.plan_digest,
            "status": facts.status,
            **{name: getattr(facts, name) for name in _PLAN_INTEGERS},
            "overhead": round(facts.overhead, 6),
        },
        "unplanned": {
            "peak_bytes": facts.unplanned_peak_bytes,
            "duration_ns": facts.unplanned_duration_ns,
        },
        "made_by": {"encamp": facts.encamp, "ortools": facts.ortools},
    }


def _locked(node: Node) -> Locked:
    node.fields(_ENTRY, ())
    graph, plan = node.child("graph"), node.child("plan")
    graph.fields(("path", "structure", "exact"), ())
    plan.fields(("path", "digest", "status", *_PLAN_INTEGERS, "overhead"), ())
    locked = Locked(
        graph_path=_path(graph.child("path")),
        plan_path=_path(plan.child("path")),
        plan_digest=_digest(plan.child("digest")),
        choices=_choices(node.child("options")),
        facts=_facts(node),
    )
    overhead = plan.child("overhead")
    if abs(overhead.number() - locked.facts.overhead) > _OVERHEAD_TOLERANCE:
        overhead.unexpected(
            f"about {locked.facts.overhead:.6f}, as the two durations have it"
        )
    return locked


def _facts(node: Node) -> PlanFacts:
    graph, plan = node.child("graph"), node.child("plan")
    unplanned, made_by = node.child("unplanned"), node.child("made_by")
    unplanned.fields(("peak_bytes", "duration_ns"), ())
    made_by.fields(("encamp", "ortools"), ())
    return PlanFacts(
        structure=_digest(graph.child("structure")),
        exact=_digest(graph.child("exact")),
        status=plan.child("status").choice(Status).value,
        **{name: _amount(plan.child(name)) for name in _PLAN_INTEGERS},
        unplanned_peak_bytes=_amount(unplanned.child("peak_bytes")),
        unplanned_duration_ns=_amount(unplanned.child("duration_ns")),
        encamp=made_by.child("encamp").text(),
        ortools=made_by.child("ortools").text(),
    )


def _choices(node: Node) -> Choices:
    node.fields((*_OPTIONS, *_LIMITS), ("fixed_order",))
    seconds, work, robust = (_given(node.child(name)) for name in _LIMITS)
    if (seconds is None) == (work is None):
        node.fail("one of time_limit_s and work_limit is null, the other a number")
    fixed = node.optional("fixed_order")
    return Choices(
        budget=node.child("budget").text(),
        reserve=node.child("reserve").text(),
        seed=_amount(node.child("seed")),
        time_limit_s=None if seconds is None else seconds.number(),
        work_limit=None if work is None else _amount(work),
        keep=_texts(node.child("keep")),
        recompute=_texts(node.child("recompute")),
        robust=None if robust is None else robust.text(),
        fixed_order=fixed is not None and fixed.flag(),
    )


def _given(node: Node) -> Node | None:
    return None if node.value is None else node


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node.items(_MAX_TEXTS))


def _amount(node: Node) -> int:
    return node.integer(high=_MAX_AMOUNT)


def _digest(node: Node) -> str:
    if not _DIGEST.fullmatch(node.text()):
        node.unexpected("'sha256:' and 64 hexadecimal digits")
    return node.text()


def _path(node: Node) -> str:
    if not node.text() or "\0" in node.text():
        node.unexpected("the path of a file")
    return node.text()
