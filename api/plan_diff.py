"""What changed from one plan to another: figures, and which ops run more or less.

Figures of any two plans can be compared. Ops are numbers, so that their runs can be
compared only where both plans were made for graphs of one structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from encamp import fingerprint
from encamp.errors import StalePlanError
from encamp.graph import CostGraph
from encamp.plan import Plan


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One figure of both plans, in bytes, in nanoseconds or as a share."""

    name: str
    before: int | float | str
    after: int | float | str

    @property
    def changed(self) -> bool:
        """Return whether the two differ."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class RunsChange:
    """Extra runs of an op, or of a group of ops, in both plans.

    Times are what these runs add, None where no graph tells them.
    """

    name: str
    before: int
    after: int
    before_ns: int | None = None
    after_ns: int | None = None

    @property
    def added_ns(self) -> int:
        """Return the time that the second plan adds over the first; 0 if unknown."""
        return (self.after_ns or 0) - (self.before_ns or 0)


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What changed between two plans.

    `groups` are modules where a graph is given, else operators; the largest change of
    time or of runs comes first. `more` and `less` count the ops that run more and less
    often. All three are None where the plans name the ops of different structures.
    """

    same_structure: bool
    same_exact: bool
    same_steps: bool
    figures: tuple[FigureChange, ...]
    more: int | None = None
    less: int | None = None
    groups: tuple[RunsChange, ...] | None = None


def compare(before: Plan, after: Plan, graph: CostGraph | None = None) -> PlanDiff:
    """Compare two plans; a graph of their structure tells modules and times.

    Linear in steps and graph.

    Raises:
        StalePlanError: one of the plans was made for another structure than `graph`.

    """
    if graph is not None:
        _require_structure(graph, before, after)
    same = before.graph.structure == after.graph.structure
    known = _runs_changed(before, after, graph) if same else (None, None, None)
    more, less, groups = known
    return PlanDiff(
        same_structure=same,
        same_exact=before.graph.exact == after.graph.exact,
        same_steps=before.steps == after.steps,
        figures=tuple(_figures(before, after)),
        more=more,
        less=less,
        groups=groups,
    )


def _require_structure(graph: CostGraph, *plans: Plan) -> None:
    structure = fingerprint.structure(graph)
    for which, plan in zip(("first", "second"), plans, strict=True):
        if plan.graph.structure != structure:
            msg = (
                f"the {which} plan was made for {plan.graph.name!r}, of another"
                f" structure than the graph {graph.name!r}; leave the graph out to"
                " compare figures only"
            )
            raise StalePlanError(msg)


def _figures(before: Plan, after: Plan) -> Iterator[FigureChange]:
    for name, ours, theirs in zip(
        _NAMES, _figures_of(before), _figures_of(after), strict=True
    ):
        yield FigureChange(name, ours, theirs)


_NAMES = (
    "status",
    "budget_bytes",
    "reserve_bytes",
    "peak_bytes",
    "duration_ns",
    "lower_bound_ns",
    "gap",
    "overhead",
    "recomputations",
    "unplanned_peak_bytes",
    "unplanned_duration_ns",
)


def _figures_of(plan: Plan) -> tuple[int | float | str, ...]:
    return (
        str(plan.status),
        plan.budget_bytes,
        plan.reserve_bytes,
        plan.peak_bytes,
        plan.duration_ns,
        plan.certificate.lower_bound_ns,
        round(plan.gap, 6),
        round(plan.overhead, 6),
        plan.num_recomputations,
        plan.unplanned.peak_bytes,
        plan.unplanned.duration_ns,
    )


def _runs_changed(
    before: Plan, after: Plan, graph: CostGraph | None
) -> tuple[int, int, tuple[RunsChange, ...]]:
    """Return how many ops run more and less, and the groups that changed."""
    ours, theirs = extra_runs(before.steps), extra_runs(after.steps)
    ops = sorted({*ours, *theirs})
    changed = [op for op in ops if ours[op] != theirs[op]]
    more = sum(1 for op in changed if theirs[op] > ours[op])
    names = _Names(before.outline or after.outline, graph)
    members: dict[str, list[int]] = {names(op): [] for op in changed}
    for op in ops:
        members.get(names(op), []).append(op)
    groups = [_group(name, mine, ours, theirs, graph) for name, mine in members.items()]
    ranked = sorted(
        groups, key=lambda g: (-abs(g.added_ns), -abs(g.after - g.before), g.name)
    )
    return more, len(changed) - more, tuple(ranked)


def extra_runs(steps: Iterable[int]) -> Counter[int]:
    """Return how often each op runs again; ops that run once are left out."""
    runs = Counter(steps)
    return Counter({op: number - 1 for op, number in runs.items() if number > 1})


class _Names:
    """Names the group of an op: its module, else its operator, else its number."""

    def __init__(self, outline: Sequence[str], graph: CostGraph | None) -> None:
        self._outline = outline
        self._graph = graph

    def __call__(self, op: int) -> str:
        if self._graph is not None:
            return self._graph.ops[op].module or self._graph.ops[op].target
        if op < len(self._outline):
            return self._outline[op].split()[1]
        return f"op {op}"


def _group(
    name: str,
    ops: Sequence[int],
    ours: Counter[int],
    theirs: Counter[int],
    graph: CostGraph | None,
) -> RunsChange:
    return RunsChange(
        name,
        sum(ours[op] for op in ops),
        sum(theirs[op] for op in ops),
        _added(graph, ops, ours),
        _added(graph, ops, theirs),
    )


def _added(
    graph: CostGraph | None, ops: Sequence[int], runs: Counter[int]
) -> int | None:
    if graph is None:
        return None
    return sum(runs[op] * graph.ops[op].duration_ns for op in ops)
