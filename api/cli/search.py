"""A search on the command line: its options, its progress, its interruption."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from encamp.errors import OptionError
from encamp.units import format_bytes, format_duration

from .output import note, percent

if TYPE_CHECKING:  # loading it loads the solver
    from encamp.planner import Cancel, Event, Options

_SECONDS = 60.0
_VAST = 2**60
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def search_options(
    *,
    seed: int,
    time_limit: float | None,
    work_limit: int | None,
    keep: Sequence[str] = (),
    recompute: Sequence[str] = (),
    robust: str | None = None,
    fixed_order: bool = False,
) -> Options:
    """Return the planner's options for those of a command.

    Raises:
        BadParameter: two of them contradict each other.
        OptionError: a rule or a share does not parse.

    """
    from encamp.planner import Action, Options, Rule  # noqa: PLC0415 - loads the solver

    if time_limit is not None and work_limit is not None:
        msg = "--time-limit and --work-limit exclude each other"
        raise typer.BadParameter(msg)
    rules = [Rule.parse(Action.KEEP, text) for text in keep]
    rules += [Rule.parse(Action.RECOMPUTE, text) for text in recompute]
    return Options(
        seed=seed,
        time_limit_s=_SECONDS if time_limit is None else time_limit,
        work_limit=work_limit,
        fixed_order=fixed_order,
        rules=tuple(rules),
        robust=None if robust is None else share(robust),
    )


def share(text: str) -> float:
    """Return the share that a text like "20%" names.

    Raises:
        OptionError: it names none.

    """
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        msg = f"not a share: {text!r}; write it as '20%'"
        raise OptionError(msg)
    # By decimal digits: 20 % is the float that is written 0.2.
    whole, _, part = found[1].partition(".")
    return float(f"{whole}{part}e-{len(part) + 2}")


@contextmanager
def interruptible() -> Iterator[Cancel]:
    """Give a token that the first Ctrl-C sets; the second one ends the command."""
    from encamp.planner import Cancel  # noqa: PLC0415 - loads the solver

    cancel = Cancel()
    with on_interrupt(cancel.set):
        yield cancel


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Do something at the first Ctrl-C; the second one ends the command."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        act()
        signal.signal(signal.SIGINT, before)
        note("interrupted: ending with the best so far; once more to end at once")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def solving(limit_s: float | None = None) -> Iterator[Callable[[Event], None]]:
    """Give a function to call with each event of a solve.

    On a terminal it draws a bar, over the seconds of the limit where there is one,
    with the best plan so far, the bound and the gap beside it.
    """
    if sys.stderr.isatty():
        columns = (BarColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("planning", total=limit_s)
            yield lambda event: bar.update(
                task, description=_told(event), completed=event.seconds
            )
    else:
        yield _Stages()


class _Stages:
    """Prints a line for each stage a solve enters."""

    def __init__(self) -> None:
        self._seen: tuple[int, str] | None = None

    def __call__(self, event: Event) -> None:
        if self._seen != (event.budget_bytes, event.stage):
            self._seen = event.budget_bytes, event.stage
            note(_told(event))


@contextmanager
def sweeping() -> Iterator[Callable[[Event], None]]:
    """Give a function to call with each event of the solves at several budgets."""
    with solving() as tell:
        if isinstance(tell, _Stages):
            yield _Budgets()
        else:
            yield tell


class _Budgets:
    """Prints a line for each budget a sweep comes to."""

    def __init__(self) -> None:
        self._budget: int | None = None

    def __call__(self, event: Event) -> None:
        if self._budget != event.budget_bytes:
            self._budget = event.budget_bytes
            note(f"{event.seconds:.1f} s  {_goal(event)}")


def _goal(event: Event) -> str:
    if event.budget_bytes > _VAST:
        return "looking for the smallest budget"
    return f"planning for {format_bytes(event.budget_bytes)}"


def _told(event: Event) -> str:
    best = "none" if event.duration_ns is None else format_duration(event.duration_ns)
    bound = format_duration(event.lower_bound_ns)
    gap = "" if event.gap is None else f", gap {percent(event.gap)}"
    return f"{event.seconds:.1f} s  {event.stage}: best {best}, bound {bound}{gap}"
