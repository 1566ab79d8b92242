"""PyTorch's own budget against Encamp at the very same peak, by the same replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import encamp
from benchmarks.partitioner import SETTINGS, merged_step, stock_step
from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent
from encamp.replay import replay
from encamp.tracer.capture import capture
from encamp.tracer.costs import cost_source
from encamp.tracer.lower import lower
from encamp.tracer.tracing import made_by

_EVERY = 2
"""Settings in steps of 0.1."""


@driver("partitioner")
def partitioner(cases: Sequence[Case]) -> Table:
    """Partition each step as PyTorch does, and plan it at the same peaks."""
    return Table(
        title="PyTorch's activation_memory_budget",
        what=(
            "For each setting the peak that PyTorch's partitioner reaches, as a share"
            " of the unplanned peak, and how much longer its step is; then Encamp's"
            " step with that very peak as its budget. Both cut the same graph (equal"
            " calls merged, as PyTorch does first); both are replayed by the same code,"
            " with the same costs, measured on this machine."
        ),
        columns=("step", "setting", "peak", "PyTorch, longer by", "Encamp", "bound"),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    joint, costs = capture(*made_by(case.make)), cost_source("measured")
    graph = lower(merged_step(joint), costs, name=case.name).graph
    unplanned = replay(graph)
    for setting in SETTINGS[::_EVERY]:
        stock = stock_step(joint, setting, costs)
        plan = encamp.plan(graph, stock.timeline.peak_bytes)
        whole = unplanned.duration_ns
        yield (
            case.name,
            f"{setting:g}",
            percent(stock.timeline.peak_bytes / unplanned.peak_bytes, 1),
            percent(stock.timeline.duration_ns / whole - 1),
            percent(plan.overhead),
            percent(plan.certificate.lower_bound_ns / whole - 1),
        )
