"""The frontier: monotone, proved, and as good as solving each budget alone."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError, NoPlanError, OptionError
from encamp.plan import Order, Status
from encamp.planner import Action, Cancel, Frontier, Options, Rule, solve, sweep
from encamp.replay import replay
from graphs import CHAIN_DURATION, CHAIN_RECOMPUTED, chain
from oracle import least_duration, least_peak
from small_steps import small_step
from steps import knapsack

step = cache(small_step)


def durations(frontier):
    """Return the duration of each plan."""
    return [plan.duration_ns for plan in frontier.plans]


class TestOfTheChain:
    def test_reaches_from_the_unplanned_peak_to_the_smallest(self):
        """53 bytes as it is, 43 with op 0 run again, and the middle needs that too."""
        frontier = sweep(chain(), points=3)

        assert [plan.budget_bytes for plan in frontier.plans] == [53, 48, 43]
        assert [plan.peak_bytes for plan in frontier.plans] == [53, 43, 43]
        assert durations(frontier) == [CHAIN_DURATION, 2200, 2200]
        assert {plan.status for plan in frontier.plans} == {Status.OPTIMAL}
        assert (frontier.bound_bytes, frontier.missed) == (43, ())

    def test_takes_given_budgets_in_any_order(self):
        """Twice the same is one; what nothing fits is missed."""
        frontier = sweep(chain(), [43, 42, 10**6, 43])

        assert [plan.budget_bytes for plan in frontier.plans] == [10**6, 43]
        assert frontier.missed == (42,)

    def test_obeys_rules_at_every_budget(self):
        """Op 0 runs again even at the unplanned peak."""
        rule = Rule.parse(Action.RECOMPUTE, "name:first")
        frontier = sweep(chain(), [53, 43], options=Options(rules=(rule,)))

        assert [plan.steps for plan in frontier.plans] == [CHAIN_RECOMPUTED] * 2
        assert frontier.plans[0].certificate.rules == (str(rule),)

    def test_refuses_what_nothing_fits(self):
        """Below 43 bytes no schedule exists, whatever else is asked for."""
        with pytest.raises(InfeasibleError, match="the largest budget") as refusal:
            sweep(chain(), [42, 41])

        assert (refusal.value.budget_bytes, refusal.value.bound_bytes) == (42, 43)

    @pytest.mark.parametrize("wrong", [{"points": 1}, {"budgets": []}], ids=str)
    def test_takes_at_least_a_budget(self, wrong):
        """One point is no curve, and no budget is none."""
        with pytest.raises(OptionError, match="at least"):
            sweep(chain(), **wrong)

    def test_ends_when_told(self):
        """Told before the first, it still has the unplanned step."""
        cancel = Cancel()
        cancel.set()
        frontier = sweep(chain(), points=2, cancel=cancel)

        assert frontier.plans[0].steps == tuple(range(6))

    def test_without_any_plan_there_is_no_frontier(self):
        """42 bytes are not refuted in no time, nor is a plan found."""
        with pytest.raises(NoPlanError, match="in 0 units of work"):
            sweep(chain(), [42], options=Options(work_limit=0))

    def test_is_the_same_under_a_work_limit(self):
        """Steps and certificates of two sweeps agree."""
        options = Options(work_limit=20)
        first, second = (sweep(chain(), points=4, options=options) for _ in "ab")

        assert [p.steps for p in first.plans] == [p.steps for p in second.plans]
        assert [p.certificate for p in first.plans] == [
            p.certificate for p in second.plans
        ]


class TestKnee:
    def test_is_farthest_from_the_line_between_the_ends(self):
        """Memory 10, 6, 2, 0 for time 0, 1, 3, 10: at 2 both are small."""
        assert knee([(10, 0), (6, 1), (2, 3), (0, 10)]) == 2

    @pytest.mark.parametrize(
        "points", [[(9, 0), (1, 8)], [(9, 0), (5, 0), (5, 0)], [(9, 0), (5, 4), (1, 8)]]
    )
    def test_of_a_straight_line_is_none(self, points):
        """Two points, a level and a slope have no bend."""
        assert knee(points) is None


def knee(points):
    """Return the knee of plans of some (peak, added duration), judged by it alone."""
    (plan,) = sweep(chain(), [53]).plans
    plans = [
        replace(plan, peak_bytes=peak, duration_ns=100 + added, memory={})
        for peak, added in points
    ]
    return Frontier(plan.graph, plan.unplanned, tuple(plans), (), 0, 0.0).knee


@pytest.mark.parametrize("block", range(8))
def test_against_the_oracle_and_single_solves(block):
    """Valid, monotone, bounded, and never longer than what a solve alone finds."""
    for seed in range(block * 8, block * 8 + 8):
        graph = step(seed)
        high, low = replay(graph).peak_bytes, least_peak(graph)
        frontier = sweep(graph, range(low, high + 1))

        for plan in frontier.plans:
            order = plan.certificate.order
            best = least_duration(
                graph, plan.budget_bytes, in_order=order is Order.GIVEN
            )
            assert check(graph, plan) == ()
            assert plan.certificate.lower_bound_ns <= best <= plan.duration_ns
        for larger, smaller in pairwise(frontier.plans):
            assert larger.duration_ns <= smaller.duration_ns
            assert larger.peak_bytes >= smaller.peak_bytes
            if larger.duration_ns == smaller.duration_ns:
                assert larger.peak_bytes == smaller.peak_bytes


def alone(graph, budget):
    """Return the duration that a solve of one budget finds, or more than any."""
    try:
        return solve(graph, budget).duration_ns
    except InfeasibleError:
        return 10**9


def test_most_points_are_as_short_as_alone():
    """Warm starts lose nothing that a solve of its own would find."""
    kept = total = 0
    for seed in range(30):
        graph = step(seed)
        frontier = sweep(graph, range(least_peak(graph), replay(graph).peak_bytes + 1))
        for plan in frontier.plans:
            total += 1
            kept += plan.duration_ns <= alone(graph, plan.budget_bytes)

    assert kept >= 0.98 * total


def test_of_a_knapsack_has_a_plan_for_each_number_of_items():
    """With room for 3, 2 and 1 of three items 0, 1 and 3 runs are added."""
    frontier = sweep(knapsack(), [3, 2, 1])

    assert [plan.num_recomputations for plan in frontier.plans] == [0, 1, 3]
