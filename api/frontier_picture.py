"""Draw a frontier: the time that each amount of memory costs, and what is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.plan import Plan
from encamp.units import format_bytes

from .picture_style import drawing, require_drawable, unit_of

if TYPE_CHECKING:  # matplotlib is optional, and the planner loads the solver
    from matplotlib.axes import Axes

    from encamp.planner import Frontier
    from encamp.planner.baselines import Baseline

_FRONTIER = "#1668b8"  # blue: what is
_PROVED = "#7d8794"  # grey: what is out of reach
_IMPOSSIBLE = "#c62828"  # red: what is not to be crossed
_KNEE = "#e08a00"  # amber: what to look at
_OTHERS = ("#2e7d32", "#8e44ad", "#00838f", "#b8860b", "#ad1457", "#5d4037")
_MARKS = "sD^vPX*<>h"
_HEADROOM = 1.08
_TALLEST = 3.0
"""Baselines that add so many times what the frontier's end adds are left outside."""


def draw_frontier(
    frontier: Frontier,
    path: str | PathLike[str],
    baselines: Mapping[int, Sequence[Baseline]] | None = None,
) -> None:
    """Draw a frontier and write the picture.

    Memory is the peak in bytes, residents included; time is what a plan adds, in % of
    the unplanned step. `baselines` are those of each budget; a point stands for each
    schedule of theirs that fits its budget. The suffix says what kind of file it is.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OptionError: the suffix is none of `picture_style.SUFFIXES`.

    """
    require_drawable(Path(path))
    with drawing(Path(path)) as figure:
        axes = figure.subplots()
        _Drawing(frontier, axes).draw(baselines or {})
        figure.legend(loc="outside right center", frameon=False)


def _overhead(frontier: Frontier, duration_ns: int) -> float:
    """Return a duration as % added to the unplanned step."""
    unplanned = frontier.unplanned.duration_ns
    return 100 * (duration_ns / unplanned - 1) if unplanned else 0.0


class _Drawing:
    """The parts of the picture, on one pair of axes."""

    def __init__(self, frontier: Frontier, axes: Axes) -> None:
        self.frontier = frontier
        self.axes = axes
        self.unit = unit_of(frontier.unplanned.peak_bytes)
        added = max(self._added(plan.duration_ns) for plan in frontier.plans)
        self.highest = max(added, 1.0)

    def draw(self, baselines: Mapping[int, Sequence[Baseline]]) -> None:
        """Draw everything; what is farther out than the frontier stays outside."""
        self._draw_bound()
        self._draw_plans()
        self._draw_baselines(baselines)
        self._draw_knee()
        self._draw_infeasible()
        self._label()

    def _scaled(self, number: int) -> float:
        return number / self.unit.bytes

    def _added(self, duration_ns: int) -> float:
        return _overhead(self.frontier, duration_ns)

    def _draw_plans(self) -> None:
        plans = self.frontier.plans
        self.axes.plot(
            [self._scaled(plan.peak_bytes) for plan in plans],
            [self._added(plan.duration_ns) for plan in plans],
            "o-",
            drawstyle="steps-pre",  # from the largest: a plan fits every budget above
            color=_FRONTIER,
            linewidth=1.6,
            markersize=5,
            label="Encamp's plans",
            zorder=3,
        )

    def _draw_bound(self) -> None:
        plans = self.frontier.plans
        memory = [self._scaled(plan.budget_bytes) for plan in plans]
        proved = [self._added(plan.certificate.lower_bound_ns) for plan in plans]
        # A bound at a budget holds for every smaller one.
        self.axes.fill_between(
            memory, 0, proved, step="post", color=_PROVED, alpha=0.18, linewidth=0
        )
        self.axes.plot(
            memory,
            proved,
            "--",
            drawstyle="steps-post",
            color=_PROVED,
            linewidth=1.4,
            label="proven: no plan below",
            zorder=2,
        )

    def _draw_baselines(self, baselines: Mapping[int, Sequence[Baseline]]) -> None:
        points: dict[str, set[tuple[float, float]]] = {}
        for rows in baselines.values():
            for row in rows:
                added = self._added(row.duration_ns)
                if row.fits and added <= _TALLEST * self.highest:
                    found = points.setdefault(row.name, set())
                    found.add((self._scaled(row.peak_bytes), added))
                    self.highest = max(self.highest, added)
        for place, (name, found) in enumerate(points.items()):
            self.axes.plot(
                *zip(*sorted(found), strict=True),
                _MARKS[place % len(_MARKS)],
                color=_OTHERS[place % len(_OTHERS)],
                markersize=4.5,
                alpha=0.8,
                label=name,
                zorder=2,
            )

    def _draw_knee(self) -> None:
        if self.frontier.knee is None:
            return
        plan = self.frontier.plans[self.frontier.knee]
        at = (self._scaled(plan.peak_bytes), self._added(plan.duration_ns))
        self.axes.plot(
            *at,
            "o",
            color=_KNEE,
            markersize=9,
            label=f"knee: {self._told(plan)}",
            zorder=4,
        )

    def _draw_infeasible(self) -> None:
        bound = self._scaled(self.frontier.bound_bytes)
        self.axes.axvspan(0, bound, color=_IMPOSSIBLE, alpha=0.10, linewidth=0)
        self.axes.axvline(
            bound,
            color=_IMPOSSIBLE,
            linewidth=1.4,
            linestyle="--",
            label="proven: nothing fits less",
        )

    def _told(self, plan: Plan) -> str:
        share = plan.peak_bytes / plan.unplanned.peak_bytes
        return f"{share * 100:.0f} % for +{self._added(plan.duration_ns):.1f} %"

    def _label(self) -> None:
        peak = self.frontier.unplanned.peak_bytes
        self.axes.set_xlim(0, 1.03 * self._scaled(peak))
        self.axes.set_ylim(0, _HEADROOM * self.highest)
        self.axes.set_title(f"{self.frontier.graph.name}: time against memory", pad=58)
        self.axes.annotate(
            f"unplanned: {format_bytes(peak)}; {len(self.frontier.plans)} plans",
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, 44),
            textcoords="offset points",
        )
        self.axes.set_xlabel(f"peak memory, {self.unit.decimal}")
        self.axes.set_ylabel("time added to the unplanned step, %")
        self._add_share(self._scaled(peak))

    def _add_share(self, whole: float) -> None:
        """Mark the shares of the unplanned peak along the top."""
        share = self.axes.twiny()
        share.set_xlim(self.axes.get_xlim())
        tenths = range(0, 101, 10)
        share.set_xticks(
            [whole * tenth / 100 for tenth in tenths], [f"{t} %" for t in tenths]
        )
        share.spines["top"].set_visible(True)
        share.tick_params(labelsize=8)
        share.set_xlabel("share of the unplanned peak", fontsize=8)
