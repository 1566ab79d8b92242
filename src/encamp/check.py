"""A second, independent reading of the rules that `encamp.replay` defines.

Nothing here is shared with the planner or with replay, and the rules are read the
other way round: replay walks the steps and carries what is live; `check` takes one
value at a time and writes down an interval for each run of its producer.

```
 steps      0    1    2    0    3
 runs of op 0: steps 0, 3         uses of its value: steps 1, 4
 intervals: [0, 1] and [3, 4]     a use belongs to the last run before it
```

An interval without a use is one step long. What the step is given but does not hold
counts as run at step 0. An output's interval is stretched to the last step: of its
runs before the first backward step the newest, of an output first made later the
last. Memory at a step is the resident bytes, plus all that was born by then, less all
that died before, plus the step's workspace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from . import fingerprint
from .graph import CostGraph, Phase
from .plan import Plan, Status


class Rule(StrEnum):
    """The rules a schedule or a plan can break."""

    NO_STEPS = "no-steps"
    UNKNOWN_OP = "unknown-op"
    MISSING_INPUT = "missing-input"
    NEVER_RUN = "never-run"
    PINNED_AGAIN = "pinned-again"
    EARLY_BACKWARD = "early-backward"
    LOST_OUTPUT = "lost-output"
    OVER_BUDGET = "over-budget"
    STATED_PEAK = "stated-peak"
    STATED_DURATION = "stated-duration"
    STATED_MEMORY = "stated-memory"
    STATED_UNPLANNED = "stated-unplanned"
    OTHER_STRUCTURE = "other-structure"
    OTHER_EXACT = "other-exact"
    BOUND_ABOVE_DURATION = "bound-above-duration"
    UNPROVED_OPTIMUM = "unproved-optimum"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `step` is a position in the steps, where there is one."""

    kind: Rule
    message: str
    step: int | None = None


def check(
    graph: CostGraph,
    plan_or_steps: Plan | Sequence[int],
    budget_bytes: int | None = None,
) -> tuple[Violation, ...]:
    """Return every rule that a plan or a bare schedule breaks; none is a pass.

    The budget is the total peak allowed, resident bytes included. For a plan it
    defaults to the plan's own and the plan's reserve is taken off it. What a plan
    states (peak, duration, memory, the unplanned figures, the graph, the bound) is
    checked too. Peak and memory are looked at only where the steps can run.

    Time is O(n log n) in steps and their edges, memory linear in them.
    """
    if isinstance(plan_or_steps, Plan):
        return tuple(_plan_violations(graph, plan_or_steps, budget_bytes))
    return tuple(_steps_violations(graph, tuple(plan_or_steps), budget_bytes))


def _steps_violations(
    graph: CostGraph, steps: tuple[int, ...], limit: int | None
) -> Iterator[Violation]:
    broken = list(_broken_rules(graph, steps))
    yield from broken
    if limit is not None and _can_run(broken):
        yield from _over_budget(_Memory(graph, steps), limit)


def _plan_violations(
    graph: CostGraph, plan: Plan, budget_bytes: int | None
) -> Iterator[Violation]:
    yield from _graph_violations(graph, plan)
    if not plan.steps:
        # Infeasible and unknown are answers without a schedule; `Plan` sees to that.
        return
    broken = list(_broken_rules(graph, plan.steps))
    yield from broken
    if _can_run(broken):
        budget = plan.budget_bytes if budget_bytes is None else budget_bytes
        memory = _Memory(graph, plan.steps)
        yield from _over_budget(memory, budget - plan.reserve_bytes)
        yield from _stated_violations(graph, plan, memory)
    yield from _certificate_violations(plan)


def _can_run(broken: Sequence[Violation]) -> bool:
    stopping = {Rule.NO_STEPS, Rule.UNKNOWN_OP, Rule.MISSING_INPUT}
    return stopping.isdisjoint(violation.kind for violation in broken)


# The rules of a schedule.


def _broken_rules(graph: CostGraph, steps: tuple[int, ...]) -> Iterator[Violation]:
    if not steps:
        yield Violation(Rule.NO_STEPS, "the schedule has no steps")
    yield from _unknown_ops(graph, steps)
    runs = _runs(graph, steps)
    yield from _missing_inputs(graph, steps, runs)
    yield from _never_run(graph, runs)
    yield from _pinned_again(graph, runs)
    yield from _early_backward(graph, steps, runs)
    yield from _lost_outputs(graph, runs)


def _runs(graph: CostGraph, steps: tuple[int, ...]) -> list[list[int]]:
    """Return for each op the steps that run it, ascending."""
    runs: list[list[int]] = [[] for _ in graph.ops]
    for step, op in enumerate(steps):
        if 0 <= op < len(runs):
            runs[op].append(step)
    return runs


def _unknown_ops(graph: CostGraph, steps: tuple[int, ...]) -> Iterator[Violation]:
    for step, op in enumerate(steps):
        if not 0 <= op < len(graph.ops):
            message = (
                f"steps[{step}] is op {op}, but the graph {graph.name!r} has only the"
                f" ops 0 to {len(graph.ops) - 1}"
            )
            yield Violation(Rule.UNKNOWN_OP, message, step)


def _missing_inputs(
    graph: CostGraph, steps: tuple[int, ...], runs: list[list[int]]
) -> Iterator[Violation]:
    for step, index in enumerate(steps):
        if not 0 <= index < len(graph.ops):
            continue
        for value in graph.ops[index].inputs:
            maker = graph.producer[value]
            if maker is None or (runs[maker] and runs[maker][0] < step):
                continue
            message = (
                f"steps[{step}] ({_label(graph, index)}) needs"
                f" {graph.describe(value)}, but {_label(graph, maker)}, which makes"
                " it, has not run by then"
            )
            yield Violation(Rule.MISSING_INPUT, message, step)


def _never_run(graph: CostGraph, runs: list[list[int]]) -> Iterator[Violation]:
    for index, when in enumerate(runs):
        if not when:
            message = f"{_label(graph, index)} never runs; every op runs at least once"
            yield Violation(Rule.NEVER_RUN, message)


def _pinned_again(graph: CostGraph, runs: list[list[int]]) -> Iterator[Violation]:
    for op, when in zip(graph.ops, runs, strict=True):
        if op.recompute.allowed:
            continue
        for step in when[1:]:
            message = (
                f"steps[{step}] runs {_label(graph, op.id)} again, which it may not"
                f" ({op.recompute.reason}); it ran at step {when[0]}"
            )
            yield Violation(Rule.PINNED_AGAIN, message, step)


def _early_backward(
    graph: CostGraph, steps: tuple[int, ...], runs: list[list[int]]
) -> Iterator[Violation]:
    boundary = _first_backward(graph, steps)
    if boundary == len(steps):
        return
    late = [
        op.id
        for op, when in zip(graph.ops, runs, strict=True)
        if op.phase is Phase.FORWARD and (not when or when[0] > boundary)
    ]
    if late:
        message = (
            f"steps[{boundary}] ({_label(graph, steps[boundary])}) begins the backward"
            f" pass before {len(late)} forward ops ran for the first time, such as"
            f" {_label(graph, late[0])}"
        )
        yield Violation(Rule.EARLY_BACKWARD, message, boundary)


def _lost_outputs(graph: CostGraph, runs: list[list[int]]) -> Iterator[Violation]:
    for value in graph.outputs:
        maker = graph.producer[value]
        if maker is not None and not runs[maker]:
            message = (
                f"output {graph.describe(value)} is not there at the end:"
                f" {_label(graph, maker)} never runs"
            )
            yield Violation(Rule.LOST_OUTPUT, message)


def _first_backward(graph: CostGraph, steps: tuple[int, ...]) -> int:
    for step, op in enumerate(steps):
        if 0 <= op < len(graph.ops) and graph.ops[op].phase is Phase.BACKWARD:
            return step
    return len(steps)


def _label(graph: CostGraph, index: int) -> str:
    return f"op {index}, {graph.ops[index].name}"


# Memory, by intervals.


@dataclass(frozen=True, slots=True)
class _Interval:
    """Bytes of one value from a first to a last step, both inclusive."""

    value: int
    first: int
    last: int


class _Memory:
    """Bytes over the steps of a schedule that can run."""

    def __init__(self, graph: CostGraph, steps: tuple[int, ...]) -> None:
        self.graph = graph
        self.steps = steps
        self.intervals = list(_intervals(graph, steps))
        born = _RunningTotal(graph, self.intervals, lambda i: i.first)
        died = _RunningTotal(graph, self.intervals, lambda i: i.last)
        held = sum(value.bytes for value in graph.values if value.resident)
        totals = [
            held + born.up_to(step) - died.up_to(step - 1) + self._workspace(step)
            for step in range(len(steps))
        ]
        self.peak = max(totals)
        self.peak_step = totals.index(self.peak)

    def items(self) -> Counter[str]:
        """Return the bytes at the peak by kind of value, plus the workspace."""
        items: Counter[str] = Counter(workspace=self._workspace(self.peak_step))
        for value in self.graph.values:
            if value.resident:
                items[value.kind.value] += value.bytes
        for interval in self.intervals:
            if interval.first <= self.peak_step <= interval.last:
                value = self.graph.values[interval.value]
                items[value.kind.value] += value.bytes
        return items

    def _workspace(self, step: int) -> int:
        return self.graph.ops[self.steps[step]].workspace_bytes


class _RunningTotal:
    """How many bytes' intervals have an end at or before a step."""

    def __init__(
        self,
        graph: CostGraph,
        intervals: Sequence[_Interval],
        end: Callable[[_Interval], int],
    ) -> None:
        ordered = sorted(intervals, key=end)
        self._ends = [end(interval) for interval in ordered]
        sizes = (graph.values[interval.value].bytes for interval in ordered)
        self._totals = list(accumulate(sizes, initial=0))

    def up_to(self, step: int) -> int:
        return self._totals[bisect_right(self._ends, step)]


def _intervals(graph: CostGraph, steps: tuple[int, ...]) -> Iterator[_Interval]:
    runs = _runs(graph, steps)
    uses = _uses(graph, runs)
    boundary, outputs = _first_backward(graph, steps), set(graph.outputs)
    for value in graph.values:
        if value.resident:
            continue
        maker = graph.producer[value.id]
        births = [0] if maker is None else runs[maker]
        kept = _kept(births, boundary) if value.id in outputs else None
        for number, first in enumerate(births):
            last = _last_use(births, number, uses[value.id])
            last = len(steps) - 1 if number == kept else last
            yield _Interval(value.id, first, last)


def _uses(graph: CostGraph, runs: list[list[int]]) -> list[list[int]]:
    """Return for each value the steps that read it, ascending."""
    uses: list[list[int]] = [[] for _ in graph.values]
    for op, when in zip(graph.ops, runs, strict=True):
        for value in op.inputs:
            uses[value] += when
    return [sorted(when) for when in uses]


def _last_use(births: list[int], number: int, uses: list[int]) -> int:
    """Return the last use before the next birth, or the birth if there is none."""
    if number + 1 == len(births):
        end = len(uses)
    else:
        # A step that makes the value again cannot read it, so ties do not occur.
        end = bisect_left(uses, births[number + 1])
    return max(births[number], uses[end - 1]) if end else births[number]


def _kept(births: list[int], boundary: int) -> int:
    """Return which instance of an output stays to the end.

    The first backward step hands over what is there; what is not there yet is handed
    over at the end. A given value is born at step 0, before that step itself.
    """
    before = bisect_left(births, boundary)
    return before - 1 if before else len(births) - 1


# What a budget allows and what a plan states.


def _over_budget(memory: _Memory, limit: int) -> Iterator[Violation]:
    if memory.peak > limit:
        step = memory.peak_step
        message = (
            f"the peak is {memory.peak} bytes at steps[{step}]"
            f" ({_label(memory.graph, memory.steps[step])}), {memory.peak - limit}"
            f" more than the {limit} the budget allows"
        )
        yield Violation(Rule.OVER_BUDGET, message, step)


def _graph_violations(graph: CostGraph, plan: Plan) -> Iterator[Violation]:
    structure, exact = fingerprint.structure(graph), fingerprint.exact(graph)
    if plan.graph.structure != structure:
        message = (
            f"the plan was made for {plan.graph.name!r} of structure"
            f" {plan.graph.structure}; {graph.name!r} has {structure}"
        )
        yield Violation(Rule.OTHER_STRUCTURE, message)
    if plan.graph.exact != exact:
        message = (
            f"the plan was made for {plan.graph.name!r} of exact fingerprint"
            f" {plan.graph.exact}; {graph.name!r} has {exact}"
        )
        yield Violation(Rule.OTHER_EXACT, message)
    every_op_once = tuple(range(len(graph.ops)))
    peak = _Memory(graph, every_op_once).peak
    duration = _duration(graph, every_op_once)
    stated = (plan.unplanned.peak_bytes, plan.unplanned.duration_ns)
    if stated != (peak, duration):
        message = (
            f"the plan states {stated[0]} bytes and {stated[1]} ns for the unplanned"
            f" step, which takes {peak} bytes and {duration} ns"
        )
        yield Violation(Rule.STATED_UNPLANNED, message)


def _stated_violations(
    graph: CostGraph, plan: Plan, memory: _Memory
) -> Iterator[Violation]:
    if plan.peak_bytes != memory.peak:
        message = (
            f"the plan states a peak of {plan.peak_bytes} bytes; it is {memory.peak},"
            f" at steps[{memory.peak_step}]"
        )
        yield Violation(Rule.STATED_PEAK, message, memory.peak_step)
    duration = _duration(graph, plan.steps)
    if plan.duration_ns != duration:
        message = (
            f"the plan states a duration of {plan.duration_ns} ns; it is {duration}"
        )
        yield Violation(Rule.STATED_DURATION, message)
    items = _nonzero(memory.items())
    if plan.memory and _nonzero(plan.memory) != items:
        message = (
            f"the plan itemises its peak as {_nonzero(plan.memory)}; at"
            f" steps[{memory.peak_step}], the first at the peak, it is {items}"
        )
        yield Violation(Rule.STATED_MEMORY, message, memory.peak_step)


def _certificate_violations(plan: Plan) -> Iterator[Violation]:
    bound = plan.certificate.lower_bound_ns
    if bound > plan.duration_ns:
        message = (
            f"the lower bound of {bound} ns ({plan.certificate.proved_by}) is above the"
            f" plan's own duration of {plan.duration_ns} ns, so it is not valid"
        )
        yield Violation(Rule.BOUND_ABOVE_DURATION, message)
    elif plan.status is Status.OPTIMAL and bound < plan.duration_ns:
        message = (
            f"the plan is called optimal, but its lower bound of {bound} ns leaves a"
            f" gap to its duration of {plan.duration_ns} ns"
        )
        yield Violation(Rule.UNPROVED_OPTIMUM, message)


def _duration(graph: CostGraph, steps: tuple[int, ...]) -> int:
    runs = Counter(steps)
    return sum(op.duration_ns * runs[op.id] for op in graph.ops)


def _nonzero(items: Mapping[str, int]) -> dict[str, int]:
    return {kind: size for kind, size in sorted(items.items()) if size}
