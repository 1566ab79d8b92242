"""What all pictures share: their kinds of file, their style, their units of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.errors import MissingExtraError, OptionError

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
"""The kinds of picture that can be written."""

_STYLE: dict[Any, Any] = {  # matplotlib spells its keys out as literals
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text
}


def require_drawable(path: Path) -> None:
    """Refuse a picture that cannot be written.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OptionError: the suffix is none of `SUFFIXES`.

    """
    if find_spec("matplotlib") is None:
        msg = "drawing needs matplotlib: pip install 'encamp[plot]'"
        raise MissingExtraError(msg)
    if path.suffix.lower() not in SUFFIXES:
        kinds = ", ".join(SUFFIXES)
        msg = f"cannot draw to {path.name!r}: a picture's name ends in one of {kinds}"
        raise OptionError(msg)


@contextmanager
def drawing(path: Path) -> Iterator[Figure]:
    """Give a figure to draw on, which is then written to `path`."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to load
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9, 4.8), dpi=160, layout="constrained")
        yield figure
        figure.savefig(path)


@dataclass(frozen=True, slots=True)
class Unit:
    """A decimal unit of bytes, with the binary one beside it."""

    decimal: str
    binary: str
    power: int

    @property
    def bytes(self) -> int:
        """Bytes in one decimal unit."""
        return int(1000**self.power)

    @property
    def ratio(self) -> float:
        """Binary units in one decimal unit."""
        return float((1000 / 1024) ** self.power)


_UNITS = (Unit("GB", "GiB", 3), Unit("MB", "MiB", 2), Unit("kB", "KiB", 1))


def unit_of(largest: int) -> Unit:
    """Return the largest unit that `largest` bytes fill, else the smallest."""
    return next((unit for unit in _UNITS if largest >= unit.bytes), _UNITS[-1])
