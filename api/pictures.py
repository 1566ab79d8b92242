"""Draw the memory of a step over its time, unplanned and planned, under its budget."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import OptionError
from encamp.graph import CostGraph, Phase
from encamp.plan import Plan
from encamp.replay import Timeline, replay
from encamp.units import format_bytes

from .picture_style import drawing, require_drawable, unit_of

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MILLISECOND = 10**6
_UNPLANNED = "#7d8794"  # grey: what was
_PLANNED = "#1668b8"  # blue: what is
_BUDGET = "#c62828"  # red: what is not to be crossed
_RECOMPUTING = "#e08a00"  # amber: what it costs
_RESIDENT = "#d3dae3"  # pale: what is there anyway


def draw_memory(graph: CostGraph, plan: Plan, path: str | PathLike[str]) -> None:
    """Draw memory over a step, unplanned and planned, and write the picture.

    Time is milliseconds of replayed duration since the start of the step; memory is
    the replayed total in bytes, residents and workspaces included. What kind of picture
    it is, the file's suffix says. Linear in the steps, but for replaying them.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OptionError: the suffix is none of `picture_style.SUFFIXES`, or the plan has
            no steps.
        InvalidPlanError: the plan is for another graph.

    """
    require_drawable(Path(path))
    if not plan.steps:
        msg = f"the plan of {plan.graph.name!r} is {plan.status}: nothing to draw"
        raise OptionError(msg)
    with drawing(Path(path)) as figure:
        _Drawing(graph, plan).on(figure)


@dataclass(frozen=True, slots=True)
class _Curve:
    """A schedule against time: step edges in ms, the memory of each step in bytes."""

    edges: tuple[float, ...]
    timeline: Timeline
    backward_ms: float
    """When the first backward step begins."""

    @property
    def peak_ms(self) -> float:
        """When the step of the peak begins."""
        return self.edges[self.timeline.peak_step]


def _curve(graph: CostGraph, timeline: Timeline) -> _Curve:
    ops = [graph.ops[index] for index in timeline.steps]
    times = accumulate((op.duration_ns for op in ops), initial=0)
    edges = tuple(time / _MILLISECOND for time in times)
    backward = (i for i, op in enumerate(ops) if op.phase is Phase.BACKWARD)
    return _Curve(edges, timeline, edges[next(backward, len(ops))])


class _Drawing:
    """The parts of the picture, on one figure."""

    def __init__(self, graph: CostGraph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.unplanned = _curve(graph, replay(graph))
        self.planned = _curve(graph, replay(graph, plan.steps))
        self.limit = plan.budget_bytes - plan.reserve_bytes
        self.largest = max(self.limit, self.unplanned.timeline.peak_bytes)
        self.unit = unit_of(self.largest)

    def on(self, figure: Figure) -> None:
        """Draw everything: the curves above, a strip of recomputation below."""
        ratios = {"height_ratios": (22, 1)}
        axes, strip = figure.subplots(2, 1, sharex=True, gridspec_kw=ratios)
        axes.set_xlim(0, max(self.unplanned.edges[-1], self.planned.edges[-1]) * 1.005)
        axes.set_ylim(0, 1.14 * self._scaled(self.largest))
        self._draw_curve(axes, self.unplanned, _UNPLANNED, "unplanned")
        self._draw_curve(axes, self.planned, _PLANNED, "planned")
        self._draw_resident(axes)
        self._draw_budget(axes)
        self._draw_phases(axes)
        self._draw_recomputing(strip)
        self._label(axes, strip)
        figure.legend(loc="outside lower center", ncols=5, frameon=False)

    def _scaled(self, number: int) -> float:
        return number / self.unit.bytes

    def _draw_curve(self, axes: Axes, curve: _Curve, color: str, label: str) -> None:
        memory = [self._scaled(held) for held in curve.timeline.memory]
        axes.stairs(memory, curve.edges, fill=True, color=color, alpha=0.22)
        axes.stairs(
            memory, curve.edges, baseline=None, color=color, linewidth=1.6, label=label
        )
        peak = self._scaled(curve.timeline.peak_bytes)
        axes.plot(curve.peak_ms, peak, "o", color=color, markersize=5)
        axes.annotate(
            f"{peak:.1f} {self.unit.decimal}",
            (curve.peak_ms, peak),
            xytext=(8, 5),
            textcoords="offset points",
            color=color,
            weight="bold",
        )

    def _draw_resident(self, axes: Axes) -> None:
        held = self._scaled(self.graph.resident_bytes)
        axes.axhspan(
            0, held, color=_RESIDENT, linewidth=0, label="resident: parameters, batch"
        )

    def _draw_budget(self, axes: Axes) -> None:
        limit = self._scaled(self.limit)
        axes.axhline(limit, color=_BUDGET, linewidth=1.6, linestyle="--")
        axes.plot([], [], color=_BUDGET, linestyle="--", label="budget")
        axes.annotate(
            f"budget {limit:.1f} {self.unit.decimal}",
            (1, limit),  # at the right end, where few steps still hold much
            xycoords=axes.get_yaxis_transform(),
            xytext=(-6, 5),
            textcoords="offset points",
            horizontalalignment="right",
            color=_BUDGET,
            weight="bold",
        )

    def _draw_phases(self, axes: Axes) -> None:
        turn = self.planned.backward_ms
        axes.axvline(turn, color="black", linewidth=0.8, linestyle=":")
        for word, side, offset in (("forward", "right", -6), ("backward", "left", 6)):
            axes.annotate(
                word,
                (turn, 1),
                xycoords=axes.get_xaxis_transform(),
                xytext=(offset, 0),
                textcoords="offset points",
                horizontalalignment=side,
                verticalalignment="top",
                style="italic",
            )

    def _draw_recomputing(self, strip: Axes) -> None:
        seen: set[int] = set()
        spans = []
        for op, (start, end) in zip(
            self.plan.steps, pairwise(self.planned.edges), strict=True
        ):
            if op in seen:
                spans.append((start, end - start))
            seen.add(op)
        strip.broken_barh(
            spans, (0, 1), color=_RECOMPUTING, linewidth=0.5, label="recomputing"
        )

    def _label(self, axes: Axes, strip: Axes) -> None:
        axes.set_title(self._title(), pad=22)
        axes.annotate(
            self._subtitle(),
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, 8),
            textcoords="offset points",
        )
        axes.set_ylabel(f"memory, {self.unit.decimal}")
        self._add_binary_scale(axes)
        strip.set_xlabel("time within the step, ms")
        strip.set_yticks([])
        strip.spines["left"].set_visible(False)

    def _add_binary_scale(self, axes: Axes) -> None:
        other = axes.twinx()
        low, high = axes.get_ylim()
        other.set_ylim(low * self.unit.ratio, high * self.unit.ratio)
        other.set_ylabel(self.unit.binary)
        other.spines["right"].set_visible(True)

    def _title(self) -> str:
        before, after = self.unplanned.timeline, self.planned.timeline
        share = after.peak_bytes / before.peak_bytes if before.peak_bytes else 1
        longer = after.duration_ns / before.duration_ns - 1 if before.duration_ns else 0
        return (
            f"{self.plan.graph.name}: {share * 100:.1f} % of the peak memory"
            f" for {longer * 100:+.1f} % time"
        )

    def _subtitle(self) -> str:
        again = self.plan.num_recomputations
        return (
            f"budget {format_bytes(self.limit)}; {again:,} recomputations beside"
            f" {len(self.graph.ops):,} ops; costs: {self.graph.meta.get('costs', '?')}"
        )
