"""A baseline: a method known from elsewhere, and the best of its schedules.

A method turns a problem into one or more schedules, for instance one for each number
of segments. All are judged by one replay; the baseline is the shortest that fits the
budget or, where none does, the one that comes nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from encamp.check import check
from encamp.errors import InternalError
from encamp.graph import CostGraph
from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem
from encamp.planner.replay_fast import duration, peak
from encamp.replay import replay


class Limits(NamedTuple):
    """What a method may use: peak bytes of the step, and seconds to look for it."""

    budget_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Method:
    """A way to make schedules, and where it was published.

    `schedules` gives those of every value of the method's parameter or, where
    `by_budget` is set, those for the budget. `max_ops` is the largest graph it takes.
    """

    name: str
    source: str
    schedules: Callable[[Problem, Limits], Iterable[IntArray]]
    by_budget: bool = False
    max_ops: int | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The schedule that a method arrives at under a budget.

    `fits` says whether its peak is within the budget. One without steps found no
    schedule at all, and has a peak and a duration of zero.
    """

    name: str
    source: str
    steps: tuple[int, ...]
    peak_bytes: int
    duration_ns: int
    fits: bool


class Judged(NamedTuple):
    """A schedule with the peak and the duration that the replay finds."""

    steps: IntArray
    peak_bytes: int
    duration_ns: int


def judge(problem: Problem, schedules: Iterable[IntArray]) -> list[Judged]:
    """Return the schedules that none beats in both peak and duration, lowest first."""
    judged = [
        Judged(s, int(peak(problem, s)), int(duration(problem, s))) for s in schedules
    ]
    kept: list[Judged] = []
    for one in sorted(judged, key=lambda one: one[1:]):
        if not kept or one.duration_ns < kept[-1].duration_ns:
            kept.append(one)
    return kept


def baseline(
    graph: CostGraph, method: Method, judged: Sequence[Judged], budget_bytes: int
) -> Baseline:
    """Return what a method arrives at, given its schedules as `judge` returns them.

    Raises:
        InternalError: the independent check finds a rule broken.

    """
    if not judged:
        return Baseline(method.name, method.source, (), 0, 0, fits=False)
    fitting = [one for one in judged if one.peak_bytes <= budget_bytes]
    chosen = fitting[-1] if fitting else judged[0]
    timeline = replay(graph, chosen.steps.tolist())
    _require_valid(graph, method, timeline.steps, timeline.peak_bytes)
    return Baseline(
        name=method.name,
        source=method.source,
        steps=timeline.steps,
        peak_bytes=timeline.peak_bytes,
        duration_ns=timeline.duration_ns,
        fits=timeline.peak_bytes <= budget_bytes,
    )


def _require_valid(
    graph: CostGraph, method: Method, steps: tuple[int, ...], peak_bytes: int
) -> None:
    broken = check(graph, steps, peak_bytes)
    if broken:
        msg = (
            f"the baseline {method.name!r} made a schedule of {graph.name!r} that"
            f" breaks a rule: {broken[0].message}; please report this with the graph"
        )
        raise InternalError(msg)
