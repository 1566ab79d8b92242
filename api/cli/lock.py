"""`encamp plan --lock`: make the plans of a lock file, or verify them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from encamp.api.lock import (
    Choices,
    Finding,
    Lock,
    Locked,
    Trouble,
    Verified,
    read_lock,
    verify,
    write_lock,
)
from encamp.api.lock.facts import share_added
from encamp.api.lock.locking import Made, Wish, make, relative, write_plans
from encamp.api.plan_table import PlanRow, markdown
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.units import format_bytes

from .exits import Exit
from .output import count, note, percent, print_json, print_lines, table
from .planning import SummaryTo
from .search import share


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What was asked of a lock file; `choices` is None where none were given."""

    file: Path
    graph_files: Sequence[Path]
    choices: Choices | None
    solve: Callable[[CostGraph, Choices], Plan]
    check: bool
    plans: str
    base: Path | None
    max_growth: str | None
    summary: SummaryTo
    as_json: bool


def lock(request: LockRequest) -> None:
    """Make the plans of a lock file, or with `check` verify them."""
    if request.check:
        _check(request)
        return
    if request.base is not None or request.max_growth is not None:
        msg = "--base and --max-growth go with --check"
        raise typer.BadParameter(msg)
    known = read_lock(request.file) if request.file.exists() else Lock()
    folder = request.file.parent
    made = make(_wishes(request, known), known, folder, request.plans, request.solve)
    write_plans(made, folder)
    write_lock(known.with_plans({m.name: m.locked for m in made}), request.file)
    note(f"wrote {request.file}")
    _tell_made(request, made, known)


def _wishes(request: LockRequest, known: Lock) -> Iterator[Wish]:
    """Return the graphs of the command, or else those of the lock file."""
    if request.graph_files and request.choices is None:
        msg = "Missing option '--budget': how much memory the plans may take"
        raise typer.BadParameter(msg)
    if not request.graph_files and request.choices is not None:
        msg = (
            "options of a search go with graphs; without any, the graphs of the lock"
            " file are planned again with options of their own"
        )
        raise typer.BadParameter(msg)
    if not request.graph_files and not known.plans:
        msg = f"{request.file} holds no plans yet: name graphs to plan, and a --budget"
        raise typer.BadParameter(msg)
    if request.choices is not None:
        for file in request.graph_files:
            yield Wish(file, request.choices)
    else:
        for locked in known.plans.values():
            yield Wish(request.file.parent / locked.graph_path, locked.choices)


def _tell_made(request: LockRequest, made: Sequence[Made], known: Lock) -> None:
    rows = [_made_row(each, known.plans.get(each.name)) for each in made]
    request.summary.write(markdown(rows))
    if request.as_json:
        print_json({"lock": str(request.file), "plans": [asdict(row) for row in rows]})
    else:
        print_lines(_lines(rows))


def _made_row(made: Made, old: Locked | None) -> PlanRow:
    state = "kept" if made.plan is None else "planned"
    before = None if old is None else old.facts.overhead
    return _row(made.name, made.locked, state, before, made.locked.facts.overhead)


def _check(request: LockRequest) -> None:
    lock, folder = read_lock(request.file), request.file.parent
    base = Lock() if request.base is None else read_lock(request.base)
    most = 0.0 if request.max_growth is None else share(request.max_growth)
    names, findings = _asked(request, lock, folder)
    verified = [
        verify(
            name,
            lock.plans[name],
            folder,
            base=base.plans.get(name),
            max_growth=most,
        )
        for name in names
    ]
    findings += [finding for each in verified for finding in each.findings]
    if request.choices is not None:
        findings += [f for e in verified for f in _other(e, request.choices)]
    _tell_checked(request, verified, findings)
    raise typer.Exit(Exit.STALE if findings else Exit.DONE)


def _asked(
    request: LockRequest, lock: Lock, folder: Path
) -> tuple[list[str], list[Finding]]:
    """Return the names to verify, and the graphs that are not in the lock file."""
    if not request.graph_files:
        return list(lock.plans), []
    by_path = {locked.graph_path: name for name, locked in lock.plans.items()}
    names: list[str] = []
    findings: list[Finding] = []
    for file in request.graph_files:
        path = relative(file, folder)
        if path in by_path:
            names.append(by_path[path])
        else:
            text = f"{file} has no plan in {request.file}; plan it with --lock"
            findings.append(Finding(Trouble.NOT_LOCKED, path, "$.plans", text))
    return names, findings


def _other(verified: Verified, choices: Choices) -> Iterator[Finding]:
    """Note a budget given on the command line that is not the locked one."""
    locked = verified.locked.choices
    for name in ("budget", "reserve"):
        ours, theirs = getattr(choices, name), getattr(locked, name)
        if ours != theirs:
            text = f"the plan was locked for {theirs!r}, not {ours!r}; plan it again"
            at = f"$.plans[{verified.name!r}].options.{name}"
            yield Finding(Trouble.STALE, verified.name, at, text)


def _tell_checked(
    request: LockRequest, verified: Sequence[Verified], findings: Sequence[Finding]
) -> None:
    troubled = {finding.graph: finding.kind.value for finding in findings}
    rows = [
        _row(
            each.name,
            each.locked,
            troubled.get(each.name, "ok"),
            each.before,
            each.locked.facts.overhead if each.overhead is None else each.overhead,
        )
        for each in verified
    ]
    problems = [(f"{f.graph}: {f.kind}", f"{f.message} ({f.at})") for f in findings]
    request.summary.write(markdown(rows, problems))
    if request.as_json:
        print_json(
            {
                "lock": str(request.file),
                "ok": not findings,
                "plans": [asdict(row) for row in rows],
                "findings": [asdict(finding) for finding in findings],
            }
        )
        return
    print_lines(_lines(rows))
    for finding in findings:
        text = f"{finding.graph}: {finding.kind}: {finding.message}"
        note(f"{request.file}: {finding.at}: {text}")
    if findings:
        note(f"encamp: {request.file} does not hold: {count(len(findings), 'problem')}")


def _row(
    name: str, locked: Locked, state: str, before: float | None, now: float
) -> PlanRow:
    facts = locked.facts
    return PlanRow(
        name=name,
        budget_bytes=facts.budget_bytes,
        peak_bytes=facts.peak_bytes,
        overhead=now,
        bound=share_added(facts.lower_bound_ns, facts.unplanned_duration_ns),
        gap=facts.gap,
        recomputations=facts.recomputations,
        state=state,
        before=before,
    )


def _lines(rows: Sequence[PlanRow]) -> list[str]:
    head = ("graph", "budget", "peak", "added time", "before", "gap", "")
    return table([head, *map(_cells, rows)], right=" >>>>>")


def _cells(row: PlanRow) -> tuple[str, ...]:
    return (
        row.name,
        format_bytes(row.budget_bytes),
        format_bytes(row.peak_bytes),
        percent(row.overhead),
        "-" if row.before is None else percent(row.before),
        percent(row.gap),
        row.state,
    )
