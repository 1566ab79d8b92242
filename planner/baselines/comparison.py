"""All baselines of a graph under one budget."""

from __future__ import annotations

from collections.abc import Sequence

from encamp.graph import CostGraph
from encamp.planner.problem import Problem
from encamp.planner.reduce import reduce

from .binomial import revolve
from .boundary import boundary_cut
from .chain_program import chain_program
from .eviction import evicting
from .extremes import keep_everything, recompute_everything
from .greedy import chen_greedy
from .method import Baseline, Limits, Method, baseline, judge
from .ordering import in_both_orders
from .stagewise import MOST_OPS, stagewise
from .uniform import square_root, uniform

_CHEN = "Chen et al. 2016, arXiv:1604.06174"

METHODS = (
    Method("keep everything", "the unplanned step", keep_everything),
    Method("recompute everything", "one checkpoint", recompute_everything),
    Method("uniform segments", _CHEN, in_both_orders(uniform)),
    Method("square root", _CHEN, in_both_orders(square_root)),
    Method("Chen's greedy", _CHEN, in_both_orders(chen_greedy)),
    Method("revolve", "Griewank, Walther 2000, TOMS 799", in_both_orders(revolve)),
    Method(
        "rotor", "Beaumont et al. 2019, arXiv:1911.13214", in_both_orders(chain_program)
    ),
    Method("boundary cut", "PyTorch's partitioner, He 2022", boundary_cut),
    Method("DTR", "Kirisame et al. 2021, arXiv:2006.09616", evicting, by_budget=True),
    Method(
        "Checkmate",
        "Jain et al. 2020, arXiv:1910.02653",
        stagewise,
        by_budget=True,
        max_ops=MOST_OPS,
    ),
)
"""Every method, in the order in which tables list them."""


def compare(
    graph: CostGraph,
    budget_bytes: int,
    *,
    seconds: float = 60.0,
    methods: Sequence[Method] = METHODS,
) -> tuple[Baseline, ...]:
    """Return what each method arrives at under a budget of peak bytes.

    The budget includes what is resident. A method that takes only smaller graphs is
    left out; `seconds` is the limit of each search that could go on for long. Each
    schedule has been judged by the replay and has passed `encamp.check`. Time grows
    about quadratically with the number of ops.
    """
    (rows,) = compare_all(graph, [budget_bytes], seconds=seconds, methods=methods)
    return rows


def compare_all(
    graph: CostGraph,
    budgets: Sequence[int],
    *,
    seconds: float = 60.0,
    methods: Sequence[Method] = METHODS,
) -> list[tuple[Baseline, ...]]:
    """Return what `compare` returns for each budget, at little more than one's cost.

    Only methods whose schedules are made for a budget run once for each.
    """
    if not budgets:
        return []
    problem = reduce(graph)
    columns = [
        _column(graph, problem, method, [Limits(b, seconds) for b in budgets])
        for method in methods
        if method.max_ops is None or problem.num_ops <= method.max_ops
    ]
    return list(zip(*columns, strict=True))


def _column(
    graph: CostGraph, problem: Problem, method: Method, limits: Sequence[Limits]
) -> list[Baseline]:
    """Return what one method arrives at under each budget."""
    if method.by_budget:
        judged = [judge(problem, method.schedules(problem, each)) for each in limits]
    else:
        judged = [judge(problem, method.schedules(problem, limits[0]))] * len(limits)
    return [
        baseline(graph, method, found, each.budget_bytes)
        for found, each in zip(judged, limits, strict=True)
    ]
