"""The plan: an execution order with repeats, its figures and its certificate.

`steps` is a list of op ids. The second and later runs of an op are recomputations.
What a plan means, its peak and its duration, is defined by `encamp.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .errors import InvalidPlanError


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Order(StrEnum):
    """Which schedules a bound holds for: all of them, or those in the given order."""

    FREE = "free"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class GraphRef:
    """The graph a plan was made for: its name and its two fingerprints."""

    name: str
    structure: str
    exact: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Peak memory in bytes and duration in nanoseconds of one schedule."""

    peak_bytes: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Robustness:
    """What a plan is worth when each op takes up to a share more or less time.

    `spread` is that share. The step then takes at most `duration_ns`, and at most `gap`
    of the unplanned step longer than the best schedule for the same durations.
    """

    spread: float
    duration_ns: int
    gap: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proof that no schedule within the budget is shorter than `lower_bound_ns`.

    `proved_by` names the method; `order` and `rules` say which schedules it covers:
    those of that order that obey the rules. `robust` is known where it was asked for.
    """

    lower_bound_ns: int
    proved_by: str
    order: Order = Order.FREE
    rules: tuple[str, ...] = ()
    robust: Robustness | None = None


@dataclass(frozen=True, slots=True)
class SolverInfo:
    """What made the plan, so that it can be made again."""

    encamp: str
    ortools: str
    seed: int
    seconds: float
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule of a graph under a budget.

    `budget_bytes` is the total peak the caller allows and `reserve_bytes` what is
    kept free of it; `peak_bytes` includes resident values. `memory` itemises the
    peak by kind of value, plus "workspace", and sums to it, or is empty. Plans without
    steps (infeasible, unknown) have a peak and a duration of zero and no memory.

    Raises:
        InvalidPlanError: the figures contradict each other.

    """

    graph: GraphRef
    budget_bytes: int
    status: Status
    steps: tuple[int, ...]
    peak_bytes: int
    duration_ns: int
    unplanned: Figures
    certificate: Certificate
    solver: SolverInfo
    reserve_bytes: int = 0
    memory: Mapping[str, int] = field(default_factory=dict)
    outline: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan whose figures contradict each other."""
        solved = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if solved != bool(self.steps):
            msg = f"a plan that is {self.status} with {len(self.steps)} steps"
            raise InvalidPlanError(msg)
        if solved:
            self._check_figures()
        elif self.peak_bytes or self.duration_ns or self.memory:
            msg = f"a plan that is {self.status} has no peak, duration or memory"
            raise InvalidPlanError(msg)

    def _check_figures(self) -> None:
        if self.peak_bytes > self.budget_bytes - self.reserve_bytes:
            msg = (
                f"a peak of {self.peak_bytes} bytes is over the budget of"
                f" {self.budget_bytes} less {self.reserve_bytes} in reserve"
            )
            raise InvalidPlanError(msg)
        itemised = sum(self.memory.values())
        if self.memory and itemised != self.peak_bytes:
            msg = f"memory sums to {itemised} bytes, the peak is {self.peak_bytes}"
            raise InvalidPlanError(msg)

    @property
    def gap(self) -> float:
        """Return (duration - lower bound) as a share of the unplanned step.

        Zero for a plan without steps, which has no duration to bound.
        """
        if not self.steps or not self.unplanned.duration_ns:
            return 0.0
        excess = self.duration_ns - self.certificate.lower_bound_ns
        return excess / self.unplanned.duration_ns

    @property
    def overhead(self) -> float:
        """Return the added duration as a share of the unplanned step.

        Zero for a plan without steps.
        """
        if not self.steps or not self.unplanned.duration_ns:
            return 0.0
        return self.duration_ns / self.unplanned.duration_ns - 1

    @property
    def num_recomputations(self) -> int:
        """How many steps run an op again."""
        return len(self.steps) - len(set(self.steps))
