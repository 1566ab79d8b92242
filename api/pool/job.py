"""What goes into a pool and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any, Protocol

Tell = Callable[[Mapping[str, Any]], None]
"""Called with each progress event: stage, seconds, best duration, bound, gap."""


@dataclass(frozen=True, slots=True)
class Job:
    """A question to the planner about one graph.

    `kind` is plan, sweep or min-budget; `request` holds what it takes beside the graph
    (see `solving.answer`). `start` is a schedule from before, for a plan.
    """

    kind: str
    graph: bytes
    request: Mapping[str, Any]
    start: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: a result with the plans it names by position, or an error.

    `final` says that no longer search would change the result. An error is the name of
    a class of `encamp.errors` and a message.
    """

    result: Mapping[str, Any] | None = None
    plans: tuple[str, ...] = ()
    final: bool = False
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """How a job is ended from outside, from any thread.

    `cancelled` asks for its best so far; `abandoned` ends it without asking.
    """

    cancelled: Flag = field(default_factory=Flag)
    abandoned: Flag = field(default_factory=Flag)


class Pool(Protocol):
    """Runs jobs, each apart from the server and from the others."""

    @property
    def slots(self) -> int:
        """How many jobs may run at once."""

    def run(self, job: Job, tell: Tell, stop: Stop) -> Outcome:
        """Run a job to its end; a cancelled one ends within two seconds.

        An abandoned one has an error of no class that a caller would store.
        """
