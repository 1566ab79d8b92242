"""Measured peak against step time and recomputation: by hand, by PyTorch, by Encamp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent, size, time
from benchmarks.ways import Point, frontier_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDS = 5
_MARKS = {
    "PyTorch": "s",
    "torch.utils.checkpoint": "D",
    "activation_memory_budget": "^",
    "Encamp": "o",
}


@driver("frontier")
def frontier(cases: Sequence[Case]) -> Table:
    """Run each step in every way and compare what it takes."""
    points = {case.name: frontier_of(case.make, _ROUNDS) for case in cases}
    return Table(
        title="The measured frontier",
        what=(
            "Steps run in every way, on PyTorch's own kernels, peaks by the allocator"
            " with what is resident; step times are medians of"
            f" {_ROUNDS} rounds in which all ways take turns. Recomputed: operations of"
            " products, convolutions and attention beyond those of the step that keeps"
            " all, counted as they run."
        ),
        columns=(
            "step",
            "way",
            "setting",
            "measured peak",
            "of the most",
            "within its budget",
            "step time",
            "recomputed",
        ),
        rows=tuple(row for case in cases for row in _rows(case, points[case.name])),
        picture=lambda figure: _draw(figure, points),
    )


def _rows(case: Case, points: Sequence[Point]) -> Iterator[tuple[str, ...]]:
    name, whole = case.name.removeprefix("frontier of "), points[0]
    for point in points:
        budget = point.budget_bytes
        within = "-" if budget is None else _answer(point.peak_bytes <= budget)
        yield (
            name,
            point.family,
            point.setting,
            size(point.peak_bytes),
            percent(point.peak_bytes / whole.peak_bytes, 1),
            within,
            time(point.duration_ns),
            percent(point.operations / whole.operations - 1, 1),
        )


def _answer(holds: bool) -> str:  # noqa: FBT001 - what it is about
    return "yes" if holds else "NO"


def _draw(figure: Figure, points: Mapping[str, Sequence[Point]]) -> None:
    """Draw time over peak above, recomputed operations over peak below."""
    figure.set_size_inches(4 * len(points), 7)
    axes = figure.subplots(2, len(points), squeeze=False)
    for column, (name, found) in enumerate(points.items()):
        whole = found[0]
        for family, mark in _MARKS.items():
            chosen = [p for p in found if p.family == family]
            peaks = [p.peak_bytes / 1e6 for p in chosen]
            times = [p.duration_ns / 1e6 for p in chosen]
            again = [100 * (p.operations / whole.operations - 1) for p in chosen]
            for row, heights in enumerate((times, again)):
                axes[row][column].plot(peaks, heights, mark, ls="-", label=family, ms=4)
        axes[0][column].set_title(name.removeprefix("frontier of "))
        axes[1][column].set_xlabel("measured peak, MB")
    axes[0][0].set_ylabel("step time, ms")
    axes[1][0].set_ylabel("recomputed operations, %")
    axes[0][0].legend(frameon=False, fontsize=8)
