"""A look at the best plan of a solve that is still under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from encamp.plan import Plan


@dataclass(slots=True)
class Incumbent:
    """The best plan of the solve it was given to, at any moment, for any thread.

    A solve that is told to end first ends the piece of work it is in, which in a large
    integer program may take seconds. Who cannot wait that long asks here.
    """

    _look: Callable[[], Plan | None] | None = field(default=None, repr=False)

    def follow(self, look: Callable[[], Plan | None]) -> None:
        """Have `plan` return what `look` does: for the solve that begins."""
        self._look = look

    def plan(self) -> Plan | None:
        """Return the best plan so far, with the bound so far; None without one.

        It has been replayed and checked as that of an ended solve has. A solve that
        was asked for `robust` figures offers none before its end.
        """
        return None if self._look is None else self._look()
