"""A baseline: a method known from elsewhere, and the best of its schedules.

A method turns a problem into one or more schedules, for instance one for each number
of segments. All are judged by one replay; the baseline is the shortest that fits the
budget or, where none does, the one that comes nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

    `schedules` gives those of every value of the method's parameter, or those for the
    budget where the budget is the parameter. `max_ops` is the largest graph it takes.
    """

    name: str
    source: str
    schedules: Callable[[Problem, Limits], Iterable[IntArray]]
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


def baseline(
    graph: CostGraph, problem: Problem, method: Method, limits: Limits
) -> Baseline:
    """Return the best schedule of a method: judged by the replay and checked.

    Raises:
        InternalError: the independent check finds a rule broken.

    """
    steps = _best(problem, method.schedules(problem, limits), limits.budget_bytes)
    if steps is None:
        return Baseline(method.name, method.source, (), 0, 0, fits=False)
    timeline = replay(graph, steps)
    _require_valid(graph, method, timeline.steps, timeline.peak_bytes)
    return Baseline(
        name=method.name,
        source=method.source,
        steps=timeline.steps,
        peak_bytes=timeline.peak_bytes,
        duration_ns=timeline.duration_ns,
        fits=timeline.peak_bytes <= limits.budget_bytes,
    )


def _best(
    problem: Problem, schedules: Iterable[IntArray], budget: int
) -> tuple[int, ...] | None:
    """Return the shortest schedule that fits, else the one with the lowest peak."""
    best: tuple[bool, int, int] | None = None
    chosen: IntArray | None = None
    for steps in schedules:
        held, taken = int(peak(problem, steps)), int(duration(problem, steps))
        over = held > budget
        rank = (over, held, taken) if over else (over, taken, held)
        if best is None or rank < best:
            best, chosen = rank, steps
    return None if chosen is None else tuple(chosen.tolist())


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
