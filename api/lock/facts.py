"""What a lock file says of one plan: what was asked for, and what the plan states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from encamp.plan import Figures, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a plan was asked for with, as the command line has it.

    `budget` and `reserve` are texts, "peak*0.6" among them. Of the two limits one is
    None: seconds of `time_limit_s`, or units of `work_limit`.
    """

    budget: str
    reserve: str = "0"
    seed: int = 0
    time_limit_s: float | None = 60.0
    work_limit: int | None = None
    keep: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    robust: str | None = None
    fixed_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """Every figure of a plan that a lock file repeats."""

    structure: str
    exact: str
    status: str
    budget_bytes: int
    reserve_bytes: int
    peak_bytes: int
    duration_ns: int
    lower_bound_ns: int
    recomputations: int
    unplanned_peak_bytes: int
    unplanned_duration_ns: int
    encamp: str
    ortools: str

    @classmethod
    def of(cls, plan: Plan) -> PlanFacts:
        """Return the facts of a plan."""
        return cls(
            structure=plan.graph.structure,
            exact=plan.graph.exact,
            status=str(plan.status),
            budget_bytes=plan.budget_bytes,
            reserve_bytes=plan.reserve_bytes,
            peak_bytes=plan.peak_bytes,
            duration_ns=plan.duration_ns,
            lower_bound_ns=plan.certificate.lower_bound_ns,
            recomputations=plan.num_recomputations,
            unplanned_peak_bytes=plan.unplanned.peak_bytes,
            unplanned_duration_ns=plan.unplanned.duration_ns,
            encamp=plan.solver.encamp,
            ortools=plan.solver.ortools,
        )

    @property
    def unplanned(self) -> Figures:
        """Return peak and duration of the unplanned step."""
        return Figures(self.unplanned_peak_bytes, self.unplanned_duration_ns)

    @property
    def overhead(self) -> float:
        """Return the added duration as a share of the unplanned step."""
        return share_added(self.duration_ns, self.unplanned_duration_ns)

    @property
    def gap(self) -> float:
        """Return (duration - lower bound) as a share of the unplanned step."""
        if not self.unplanned_duration_ns:
            return 0.0
        return (self.duration_ns - self.lower_bound_ns) / self.unplanned_duration_ns

    def differences(self, other: PlanFacts) -> Iterator[tuple[str, object, object]]:
        """Return each place in the lock's entry where two differ, with both values."""
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs:
                yield PLACES[field.name], ours, theirs


PLACES = {
    "structure": "graph.structure",
    "exact": "graph.exact",
    "status": "plan.status",
    "budget_bytes": "plan.budget_bytes",
    "reserve_bytes": "plan.reserve_bytes",
    "peak_bytes": "plan.peak_bytes",
    "duration_ns": "plan.duration_ns",
    "lower_bound_ns": "plan.lower_bound_ns",
    "recomputations": "plan.recomputations",
    "unplanned_peak_bytes": "unplanned.peak_bytes",
    "unplanned_duration_ns": "unplanned.duration_ns",
    "encamp": "made_by.encamp",
    "ortools": "made_by.ortools",
}
"""Where each fact stands in an entry of a lock file."""


def share_added(duration_ns: int, unplanned_ns: int) -> float:
    """Return what a step takes longer than the unplanned one, as a share of it."""
    return duration_ns / unplanned_ns - 1 if unplanned_ns else 0.0
