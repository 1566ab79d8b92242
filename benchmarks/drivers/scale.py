"""How the time and memory of a solve grow with the graph."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent, seconds, size
from encamp.planner import Options, solve
from encamp.replay import replay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = (0.5, 0.3)
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class _Point:
    """One solve in a process of its own."""

    layers: str
    ops: int
    share: float
    overhead: float
    gap: float
    seconds: float
    most_bytes: int
    """The most memory the process had, graph and start-up included."""


@driver("scale")
def scale(cases: Sequence[Case]) -> Table:
    """Plan steps of growing depth, each in a fresh process."""
    points = [_solved_apart(case, share) for case in cases for share in _SHARES]
    return Table(
        title="Growth with the graph",
        what=(
            "Decoders of equal layers, made by `benchmarks.synthetic`, at shares of"
            " their dynamic peak. Seconds are those of the solve, with the last check;"
            " memory is the most that the process had, the graph included."
        ),
        columns=("step", "ops", "budget", "longer by", "gap", "solved in", "memory"),
        rows=tuple(
            (
                point.layers,
                f"{point.ops:,}",
                percent(point.share, 0),
                percent(point.overhead),
                percent(point.gap),
                seconds(point.seconds),
                size(point.most_bytes),
            )
            for point in points
        ),
        picture=lambda figure: _draw(figure, points),
    )


def _solved_apart(case: Case, share: float) -> _Point:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_solved, case, share).result()


def _solved(case: Case, share: float) -> _Point:
    graph = case.graph()
    dynamic = replay(graph).peak_bytes - graph.resident_bytes
    budget = graph.resident_bytes + int(share * dynamic)
    began = time.perf_counter()
    plan = solve(graph, budget, options=Options(time_limit_s=_LIMIT_S))
    taken = time.perf_counter() - began
    ops, most = len(graph.ops), _most_bytes()
    return _Point(case.what, ops, share, plan.overhead, plan.gap, taken, most)


def _most_bytes() -> int:
    """Return the most memory that this process has had.

    `getrusage` would tell the most of the process that started it, where that is more.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(one for one in status.splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _draw(figure: Figure, points: Sequence[_Point]) -> None:
    """Draw seconds and memory over ops, both axes logarithmic."""
    figure.set_size_inches(9, 4)
    time_axes, memory_axes = figure.subplots(1, 2)
    for share in _SHARES:
        chosen = [point for point in points if point.share == share]
        ops = [point.ops for point in chosen]
        label = f"budget {share:.0%}"
        time_axes.loglog(ops, [p.seconds for p in chosen], "o-", ms=4, label=label)
        memory_axes.loglog(ops, [p.most_bytes / 1e9 for p in chosen], "o-", ms=4)
    largest, smallest = max(p.ops for p in points), min(p.ops for p in points)
    last = max(p.seconds for p in points if p.ops == largest)
    linear = [last * smallest / largest, last]
    time_axes.loglog([smallest, largest], linear, "--", color="grey", label="linear")
    time_axes.set_ylabel("seconds of the solve")
    memory_axes.set_ylabel("most memory of the process, GB")
    for axes in (time_axes, memory_axes):
        axes.set_xlabel("ops")
    time_axes.legend(frameon=False, fontsize=8)
