"""When a search ends: at a time, after an amount of work, or when it is told to.

Every stage pays for what it does in elementary steps and asks between two pieces of
it whether the search is over. A piece is short (see `PIECE`), so that none outlasts a
limit by much. Work is counted, not timed: the same search with the same work limit
ends at the same point on every machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

UNIT = 10**6
"""Elementary steps in one unit of `Options.work_limit`."""
PIECE = 2 * 10**7
"""Elementary steps that a stage may do between two looks at the clock."""
_A_DAY = 86_400.0


@dataclass(slots=True)
class Cancel:
    """A request to end a search with the best it has found.

    Setting it is safe from any thread and from a signal handler.
    """

    _asked: bool = False

    def set(self) -> None:
        """Ask; it cannot be taken back."""
        self._asked = True

    def is_set(self) -> bool:
        """Return whether the end has been asked for."""
        return self._asked


@dataclass(slots=True)
class Clock:
    """The limits of a search, and what it has used of them.

    With a work limit no wall clock is looked at, so `limit_s` should be None then.
    A clock with a `parent` is over no later than that one, which it pays too.
    """

    limit_s: float | None = None
    work_limit: int | None = None
    """In elementary steps."""
    cancel: Cancel = field(default_factory=Cancel)
    parent: Clock | None = None
    started: float = field(default_factory=time.monotonic)
    landing_s: float = 0.0
    """Seconds kept free for what follows the search: replay, check, fingerprints."""
    work: int = 0
    """Elementary steps paid for: about one per step replayed or arc of a flow."""
    stopped: float | None = None

    @property
    def seconds(self) -> float:
        """Return the seconds from the start until now, or until it was stopped."""
        now = time.monotonic() if self.stopped is None else self.stopped
        return now - self.started

    @property
    def elapsed(self) -> float:
        """Return the seconds since the start of the whole search."""
        return self.seconds if self.parent is None else self.parent.elapsed

    @property
    def left(self) -> float:
        """Return the seconds left, a day where there is no limit."""
        own = _A_DAY
        if self.limit_s is not None:
            own = self.limit_s - self.landing_s - self.seconds
        return own if self.parent is None else min(own, self.parent.left)

    @property
    def work_left(self) -> int | None:
        """Return the elementary steps left, None where there is no limit."""
        own = None if self.work_limit is None else self.work_limit - self.work
        if self.parent is None:
            return own
        above = self.parent.work_left
        return above if own is None else own if above is None else min(own, above)

    def stop(self) -> None:
        """End the count of seconds."""
        self.stopped = time.monotonic()

    def pay(self, steps: int) -> None:
        """Count elementary steps that were done."""
        self.work += steps
        if self.parent is not None:
            self.parent.pay(steps)

    def is_over(self) -> bool:
        """Return whether a limit has been reached, or the end asked for."""
        if self.parent is not None and self.parent.is_over():
            return True
        if self.cancel.is_set() or self.left <= 0:
            return True
        return self.work_limit is not None and self.work >= self.work_limit

    def share(self, part: float) -> Clock:
        """Return a clock over a part of what is left, in time or in work."""
        work = self.work_left
        return Clock(
            limit_s=None if work is not None else max(self.left, 0.0) * part,
            work_limit=None if work is None else int(max(work, 0) * part),
            cancel=self.cancel,
            parent=self,
        )

    def at_once(self, steps: int, most: int) -> int:
        """Return how many things of so many elementary steps make one piece."""
        return max(1, min(most, PIECE // max(1, steps)))

    @property
    def end(self) -> str:
        """Return what ended the search, for a message."""
        if self.cancel.is_set():
            return f"before it was told to stop, after {self.seconds:.0f} s"
        if self.work_limit is not None:
            return f"in {self.work_limit // UNIT} units of work"
        return f"in {self.seconds:.0f} s"
