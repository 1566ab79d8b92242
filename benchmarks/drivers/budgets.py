"""How much longer the step gets as its budget shrinks, and how much it must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import encamp
from benchmarks.registry import Case, Table, driver
from benchmarks.text import percent, seconds, size, time
from encamp.errors import InfeasibleError
from encamp.tracer.tracing import made_by

_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


@driver("budgets")
def budgets(cases: Sequence[Case]) -> Table:
    """Plan each step at shares of its unplanned peak."""
    return Table(
        title="Budgets",
        what=(
            "Steps with costs measured on this machine, planned at shares of their"
            " unplanned peak, residents included. The bound is proven: no schedule"
            " within the budget is shorter, in any order or, where several moments at"
            " once proved it, with first runs in the graph's order."
        ),
        columns=("step", "budget", "peak", "longer by", "bound", "gap", "solved in"),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    graph = encamp.trace(*made_by(case.make))
    for share in _SHARES:
        budget = f"peak*{share}"
        try:
            plan = encamp.plan(graph, budget)
        except InfeasibleError as error:
            smallest = size(error.smallest_bytes or error.bound_bytes)
            yield case.name, percent(share, 0), f"above {smallest}", *("-",) * 4
            continue
        bound = plan.certificate.lower_bound_ns
        yield (
            case.name,
            percent(share, 0),
            size(plan.peak_bytes),
            percent(plan.overhead),
            time(bound),
            percent(plan.gap),
            seconds(plan.solver.seconds),
        )
