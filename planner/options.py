"""What a caller may choose about a solve, and what a solve reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.errors import OptionError

from .rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a solve. Each technique has a switch, so that it can be measured.

    With one seed a solve is deterministic unless a stage runs short of time; with a
    work limit it always is.

    Raises:
        OptionError: a limit, a gap or a spread is out of its range.

    """

    seed: int = 0
    """Seed of the random choices in repair, local search and annealing."""
    time_limit_s: float | None = 60.0
    """Seconds of wall clock after which the best so far is returned."""
    work_limit: int | None = None
    """Units of work after which it is, instead of seconds: the same on any machine.

    A unit is a million elementary steps of the inner loops: steps replayed, arcs of
    a flow. How long it takes, and how many suffice, depends on the graph.
    """
    target_gap: float = 0.0005
    """Stop improving at a proven gap of this share of the unplanned step.

    What is under way is finished, and programs of small graphs go on to an optimum.
    """
    reduce: bool = True
    """Solve an exactly reduced problem."""
    bound: bool = True
    """Prove bounds by priced cuts. Without it only trivial bounds are stated."""
    starts: bool = True
    """Start from the cut behind the bound, beside the unplanned schedule."""
    fill: bool = True
    """Take recomputations out again while the schedule fits."""
    integer_program: bool = True
    """Solve integer programs over a growing set of moments."""
    relaxation: bool = True
    """Relax them at more moments, and solve at those that have a price."""
    local_search: bool = True
    """Search around the best plan when the gap is still open."""
    annealing: bool = True
    """Search for other orders in graphs of one phase, where they may be worth it."""
    fixed_order: bool = False
    """Keep the first runs in the order of the graph's ops: no search for another."""
    rules: tuple[Rule, ...] = ()
    """What the plan must keep and what it must recompute."""
    robust: float | None = None
    """Share by which any op may take more or less time than the graph says.

    The certificate then states the worst duration and gap under all such times.
    """

    def __post_init__(self) -> None:
        """Refuse what no solve can honour."""
        limits = {"time_limit_s": self.time_limit_s, "work_limit": self.work_limit}
        for name, limit in limits.items():
            if limit is not None and not limit >= 0:
                msg = f"{name} is {limit}; give a number of at least 0, or None"
                raise OptionError(msg)
        if not self.target_gap >= 0:
            msg = f"target_gap is {self.target_gap}; give a share of at least 0"
            raise OptionError(msg)
        if self.robust is not None and not 0 <= self.robust < 1:
            msg = f"robust is {self.robust}; give a share from 0 to under 1"
            raise OptionError(msg)


@dataclass(frozen=True, slots=True)
class Event:
    """Progress of a solve: the stage it is in and what is known so far."""

    stage: str
    seconds: float
    duration_ns: int | None
    """Duration of the best plan so far."""
    lower_bound_ns: int
    """Proven: no schedule within the budget is shorter."""
    unplanned_ns: int
    """Duration of every op once, of which the gap is a share."""
    budget_bytes: int
    """The peak that the best plan may have; vast while the smallest is looked for."""

    @property
    def gap(self) -> float | None:
        """Return (best - bound) as a share of the unplanned step, None without best."""
        if self.duration_ns is None:
            return None
        excess = self.duration_ns - self.lower_bound_ns
        return excess / self.unplanned_ns if self.unplanned_ns else 0.0
