"""What a solve reports while it runs, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from encamp.units import format_duration

from .output import note

if TYPE_CHECKING:  # loading it loads the solver
    from encamp.planner import Event


@contextmanager
def solving() -> Iterator[Callable[[Event], None]]:
    """Give a function to call with each event of a solve."""
    if sys.stderr.isatty():
        with Console(stderr=True).status("planning") as status:
            yield lambda event: status.update(_told(event))
    else:
        yield _Stages()


class _Stages:
    """Prints a line for each stage a solve enters."""

    def __init__(self) -> None:
        self._stage = ""

    def __call__(self, event: Event) -> None:
        if event.stage != self._stage:
            self._stage = event.stage
            note(_told(event))


def _told(event: Event) -> str:
    best = "none" if event.duration_ns is None else format_duration(event.duration_ns)
    bound = format_duration(event.lower_bound_ns)
    return f"{event.seconds:.1f} s  {event.stage}: best {best}, bound {bound}"
