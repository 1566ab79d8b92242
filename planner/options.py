"""What a caller may choose about a solve, and what a solve reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a solve. Each technique has a switch, so that it can be measured.

    With one seed a solve is deterministic unless the time limit ends it.
    """

    seed: int = 0
    """Seed of the random choices in repair and local search."""
    time_limit_s: float | None = 60.0
    """Seconds of wall clock after which the best so far is returned."""
    target_gap: float = 0.0005
    """Stop improving at a proven gap of this share of the unplanned step."""
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
    local_search: bool = True
    """Search around the best plan when the gap is still open."""


@dataclass(frozen=True, slots=True)
class Event:
    """Progress of a solve: the stage it is in and what is known so far."""

    stage: str
    seconds: float
    duration_ns: int | None
    """Duration of the best plan so far."""
    lower_bound_ns: int
    """Proven: no schedule within the budget is shorter."""
