"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .output import note

Report = Callable[[int, int], None]
_TENTHS = 10


@contextmanager
def progress(doing: str) -> Iterator[Report]:
    """Give a function to call with (done, total) while something is `doing`."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield _Lines(doing)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


class _Lines:
    """Prints a line at each tenth of the way."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._tenth = -1

    def __call__(self, done: int, total: int) -> None:
        tenth = _TENTHS * done // total if total else _TENTHS
        if tenth > self._tenth:
            self._tenth = tenth
            note(f"{self._doing}: {done}/{total}")
