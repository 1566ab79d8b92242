"""What each technique of the planner buys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.registry import Case, Missing, Table, driver
from benchmarks.text import seconds
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.planner import Options, solve
from encamp.replay import replay

_SHARES = {"rl1": 80, "cm1_fcn8": 80, "joint_gpt24": 50, "joint_s12": 50}
_OTHERWISE = 30
_SECONDS = 6.0
_SWITCHES = (
    "reduce",
    "bound",
    "starts",
    "fill",
    "integer_program",
    "relaxation",
    "local_search",
    "annealing",
)


@driver("ablation")
def ablation(cases: Sequence[Case]) -> Table:
    """Plan each graph with everything, and without each technique in turn."""
    return Table(
        title="Ablation",
        what=(
            "Added time / proven bound in percent of the unplanned step and seconds,"
            " with every technique and with one of them switched off; at a share of the"
            f" dynamic peak, within {_SECONDS:.0f} s. - is no plan."
        ),
        columns=("graph", "budget", "all", *(f"no {s}" for s in _SWITCHES)),
        rows=tuple(row for case in cases for row in _rows(case)),
    )


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    share = _SHARES.get(case.name, _OTHERWISE)
    try:
        graph = case.graph()
    except Missing as missing:
        yield case.name, f"not measured: {missing}", *("-",) * (1 + len(_SWITCHES))
        return
    full = Options(time_limit_s=_SECONDS)
    each = (full, *(replace(full, **{switch: False}) for switch in _SWITCHES))
    yield case.name, f"{share} %", *(_cell(graph, share, one) for one in each)


def _cell(graph: CostGraph, share: int, options: Options) -> str:
    dynamic = replay(graph).peak_bytes - graph.resident_bytes
    budget = graph.resident_bytes + dynamic * share // 100
    try:
        plan = solve(graph, budget, options=options)
    except (InfeasibleError, NoPlanError):
        return "-"
    bound = plan.overhead - plan.gap
    taken = seconds(plan.solver.seconds)
    return f"{100 * plan.overhead:.2f} / {100 * bound:.2f}, {taken}"
