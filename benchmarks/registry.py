"""What is measured: cases register themselves, and so do the drivers that measure them.

A case is a training step or a ready-made graph; it names the drivers that it is for. A
driver measures its cases and returns one table of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from encamp.graph import CostGraph


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure.

    `make` returns (model, args[, kwargs]) for a training step, a `CostGraph` for a
    graph; it raises `Missing` where what it needs is not there. A smoke run takes the
    cases that are `quick`, the results those that are `full`.
    """

    name: str
    what: str
    drivers: tuple[str, ...]
    make: Callable[[], Any]
    quick: bool = False
    full: bool = True

    def graph(self) -> CostGraph:
        """Make the graph of a case that is one."""
        made: CostGraph = self.make()
        return made


@dataclass(frozen=True, slots=True)
class Table:
    """Results of one driver: a heading, what was measured, columns and rows of text."""

    title: str
    what: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    picture: Callable[[Any], None] | None = None
    """Draws the results on a figure of matplotlib's."""


Measure = Callable[[Sequence[Case]], Table]


class Missing(Exception):  # noqa: N818 - a state of the machine, no error of the case
    """What a case needs is not on this machine; the message says where to get it."""


_CASES: dict[str, Case] = {}
_DRIVERS: dict[str, Measure] = {}


def add_case(case: Case) -> Case:
    """Register a case under its name."""
    _CASES[case.name] = case
    return case


def driver(name: str) -> Callable[[Measure], Measure]:
    """Register a driver under a name, for cases to refer to."""

    def register(measure: Measure) -> Measure:
        _DRIVERS[name] = measure
        return measure

    return register


def load() -> None:
    """Import every module of cases and of drivers, so that they register."""
    for folder in ("cases", "drivers"):
        package = import_module(f"benchmarks.{folder}")
        for module in sorted(m.name for m in iter_modules(package.__path__)):
            import_module(f"{package.__name__}.{module}")


def cases_for(name: str, *, quick: bool = False) -> list[Case]:
    """Return the cases of a driver, in order of registration."""
    cases = [case for case in _CASES.values() if name in case.drivers]
    return [case for case in cases if (case.quick if quick else case.full)]


def drivers() -> dict[str, Measure]:
    """Return the drivers by name."""
    return dict(_DRIVERS)
