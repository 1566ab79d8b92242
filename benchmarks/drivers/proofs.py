"""How near to the proven bound plans come on graphs that others know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import encamp
from benchmarks.registry import Case, Missing, Table, driver
from benchmarks.text import percent, seconds
from encamp.errors import InfeasibleError, NoPlanError

_SHARES = (0.8, 0.5, 0.3)
_SECONDS = 10.0


@driver("proofs")
def proofs(cases: Sequence[Case]) -> Table:
    """Plan each graph at shares of its unplanned peak."""
    return Table(
        title="Proven gaps on public graphs",
        what=(
            "Graphs with costs of their own, planned at shares of their unplanned peak,"
            f" residents included, within {_SECONDS:.0f} s. Bounds hold for every order"
            " of the ops, or where it took several moments at once to prove them, for"
            " schedules whose first runs keep the graph's order."
        ),
        columns=("graph", "", "ops", "budget", "longer by", "gap", "solved in"),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    try:
        graph = case.graph()
    except Missing as missing:
        yield case.name, f"not measured: {missing}", *("-",) * 5
        return
    for share in _SHARES:
        head = (case.name, case.what, f"{len(graph.ops):,}", percent(share, 0))
        try:
            plan = encamp.plan(graph, f"peak*{share}", time_limit_s=_SECONDS)
        except InfeasibleError as error:
            proved = error.bound_bytes > error.budget_bytes
            yield *head, "infeasible" if proved else "none found", "-", "-"
        except NoPlanError:
            yield *head, "none found", "-", "-"
        else:
            taken = seconds(plan.solver.seconds)
            yield *head, percent(plan.overhead), percent(plan.gap), taken
