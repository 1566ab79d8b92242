"""Claims of the planner against exhaustive search over every schedule."""

from functools import cache

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError
from encamp.plan import Order, Status
from encamp.planner import Options, min_budget, solve
from encamp.replay import replay
from oracle import least_duration, least_peak
from small_steps import small_step

BLOCKS = range(20)
PER_BLOCK = 10

step = cache(small_step)


def budgets(graph) -> range:
    """From below the smallest peak to just under the unplanned one."""
    return range(least_peak(graph) - 1, replay(graph).peak_bytes)


@pytest.mark.parametrize("block", BLOCKS)
class TestAgainstTheOracle:
    def test_bounds_and_optima(self, block):
        """A bound never exceeds the optimum; a plan called optimal is one."""
        for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
            graph = step(seed)
            for budget in list(budgets(graph))[-3:]:
                best = least_duration(graph, budget)
                if best is None:
                    continue
                try:
                    plan = solve(graph, budget)
                except InfeasibleError as error:
                    refuted = error.bound_bytes > budget
                    assert not refuted, f"seed {seed}"
                    continue
                in_order = least_duration(graph, budget, in_order=True)
                free = plan.certificate.order is Order.FREE
                optimum = best if free else in_order

                assert check(graph, plan) == ()
                assert plan.duration_ns >= in_order >= best
                assert plan.certificate.lower_bound_ns <= optimum, f"seed {seed}"
                if plan.status is Status.OPTIMAL:
                    assert plan.duration_ns == optimum

    def test_refusals(self, block):
        """Below the smallest peak of any schedule, solve refuses."""
        for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
            graph = step(seed)
            least = least_peak(graph)
            if least == 0:
                continue
            with pytest.raises(InfeasibleError) as refusal:
                solve(graph, least - 1)

            assert refusal.value.bound_bytes <= least, f"seed {seed}"
            assert refusal.value.smallest_bytes >= least, f"seed {seed}"

    def test_smallest_budget(self, block):
        """The smallest peak of any schedule lies between bound and budget."""
        for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
            graph = step(seed)
            found = min_budget(graph)

            assert found.bound_bytes <= least_peak(graph), f"seed {seed}"
            assert found.budget_bytes >= least_peak(graph), f"seed {seed}"
            assert found.plan.peak_bytes == found.budget_bytes
            assert check(graph, found.plan) == ()


def test_most_small_steps_are_solved_to_the_optimum():
    """Of the budgets a schedule of the given order fits, most get the best plan."""
    solved = total = 0
    for seed in range(60):
        graph = step(seed)
        for budget in budgets(graph):
            best = least_duration(graph, budget, in_order=True)
            if best is None:
                continue
            total += 1
            try:
                solved += solve(graph, budget).duration_ns == best
            except InfeasibleError:
                continue

    assert solved >= 0.97 * total


@pytest.mark.parametrize(
    "switch",
    [
        "reduce",
        "bound",
        "starts",
        "fill",
        "integer_program",
        "relaxation",
        "local_search",
    ],
)
def test_every_technique_can_be_switched_off(switch):
    """Without any one technique most steps are planned, and validly."""
    options = Options(**{switch: False})
    solved = 0
    for seed in range(40):
        graph = step(seed)
        for budget in list(budgets(graph))[-1:]:
            try:
                plan = solve(graph, budget, options=options)
            except InfeasibleError:
                continue
            solved += 1

            assert check(graph, plan, budget) == ()
            assert plan.certificate.lower_bound_ns <= plan.duration_ns

    assert solved >= 15
