"""Solving end to end: plans, certificates, refusals, determinism and limits."""

import time
from dataclasses import replace

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import Reason, Recompute
from encamp.plan import Figures, Order, Status
from encamp.planner import Event, Options, min_budget, solve
from encamp.planner.clock import Clock
from graphs import (
    CHAIN_DURATION,
    CHAIN_PEAK,
    CHAIN_RECOMPUTED,
    CHAIN_RECOMPUTED_PEAK,
    chain,
)
from random_steps import random_step
from small_steps import small_step
from steps import knapsack

MANY_BYTES, MANY_NS = 2**50, 10**15


class TestPlans:
    @pytest.mark.parametrize("spare", [0, 1, 10**12])
    def test_a_budget_of_the_unplanned_peak_recomputes_nothing(self, spare):
        """At 53 bytes and above the chain runs as it is, and that is optimal."""
        plan = solve(chain(), CHAIN_PEAK + spare)

        assert plan.steps == tuple(range(6))
        assert plan.status is Status.OPTIMAL
        assert plan.certificate.lower_bound_ns == CHAIN_DURATION
        assert plan.overhead == 0

    @pytest.mark.parametrize("budget", [CHAIN_RECOMPUTED_PEAK, CHAIN_PEAK - 1])
    def test_under_it_one_op_runs_again(self, budget):
        """From 43 to 52 bytes the best is to run op 0 again, 100 ns, and no more."""
        plan = solve(chain(), budget)

        assert plan.steps == CHAIN_RECOMPUTED
        assert plan.status is Status.OPTIMAL
        assert plan.certificate.order is Order.FREE
        assert plan.gap == 0
        assert plan.unplanned == Figures(CHAIN_PEAK, CHAIN_DURATION)
        assert sum(plan.memory.values()) == plan.peak_bytes == CHAIN_RECOMPUTED_PEAK

    def test_a_reserve_is_taken_off_first(self):
        """53 bytes less one in reserve are 52."""
        plan = solve(chain(), CHAIN_PEAK, reserve_bytes=1)

        assert plan.steps == CHAIN_RECOMPUTED
        assert (plan.budget_bytes, plan.reserve_bytes) == (CHAIN_PEAK, 1)
        assert check(chain(), plan) == ()

    @pytest.mark.parametrize(("budget", "again"), [(1, 3), (2, 1), (3, 0)])
    def test_a_knapsack_of_equal_items_is_filled(self, budget, again):
        """With room for two of three, one runs again; beside one, none can be made."""
        plan = solve(knapsack(), budget)

        assert plan.num_recomputations == again
        assert plan.status is Status.OPTIMAL

    def test_large_sizes_and_durations_stay_exact(self):
        """With values of 2**50 bytes and ops of 10**15 ns nothing wraps or rounds."""
        graph = knapsack(size=MANY_BYTES, cost=MANY_NS)
        plan = solve(graph, 2 * MANY_BYTES)

        assert plan.duration_ns == graph.duration_ns + MANY_NS
        assert plan.peak_bytes == 2 * MANY_BYTES
        assert plan.certificate.lower_bound_ns <= plan.duration_ns
        assert plan.gap < 1e-9
        with pytest.raises(InfeasibleError) as refusal:
            solve(graph, MANY_BYTES - 1)
        assert refusal.value.bound_bytes == MANY_BYTES


class TestRefusals:
    def test_say_what_would_fit_and_where(self):
        """Op 3 holds 43 bytes by itself; 43 is also what a plan was found for."""
        with pytest.raises(InfeasibleError) as refusal:
            solve(chain(), 42)
        error = refusal.value

        assert (error.budget_bytes, error.bound_bytes, error.smallest_bytes) == (
            42,
            43,
            43,
        )
        assert error.site is not None
        assert (error.site.op, error.site.bytes) == ("third_back", 43)
        assert error.site.values[0] == "second: 20 B"
        message = str(error)
        assert "no schedule of 'chain' fits 42 B" in message
        assert "smallest feasible budget found is 43" in message
        assert "third_back" in message
        assert "second: 20 B; third_back: 20 B" in message

    def test_name_module_and_source(self):
        """Where the graph knows module and source of the op, so does the message."""
        ops = list(chain().ops)
        ops[3] = replace(ops[3], module="net.2", source="net.py:7")
        graph = replace(chain(), ops=tuple(ops))
        with pytest.raises(InfeasibleError, match=r"third_back \(net\.2, net\.py:7\)"):
            solve(graph, 42)

    def test_count_the_reserve(self):
        """With 5 bytes in reserve the smallest budget is 48."""
        with pytest.raises(InfeasibleError, match="less 5 B in reserve") as refusal:
            solve(chain(), 47, reserve_bytes=5)

        assert (refusal.value.bound_bytes, refusal.value.smallest_bytes) == (48, 48)

    def test_without_time_there_is_no_plan(self):
        """A limit of no seconds leaves unknown whether 42 bytes can fit."""
        with pytest.raises(NoPlanError, match="more time"):
            solve(chain(), 42, options=Options(time_limit_s=0.0))


class TestRuns:
    @pytest.mark.parametrize("seed", range(8))
    def test_are_the_same_for_a_seed(self, seed):
        """Two solves with one seed give the same steps and the same bound."""
        graph = small_step(seed)
        budget = min_budget(graph).budget_bytes
        first, second = (solve(graph, budget, options=Options(seed=3)) for _ in "ab")

        assert first.steps == second.steps
        assert first.certificate == second.certificate

    def test_report_their_progress(self):
        """Bounds rise, durations fall, and the last event tells the plan's."""
        events: list[Event] = []
        plan = solve(chain(), 43, progress=events.append)
        bounds = [event.lower_bound_ns for event in events]
        durations = [e.duration_ns for e in events if e.duration_ns is not None]

        assert bounds == sorted(bounds)
        assert durations == sorted(durations, reverse=True)
        assert events[-1].duration_ns == plan.duration_ns
        assert [e.stage for e in events][:1] == ["cut"]
        assert set(plan.solver.stages) == {event.stage for event in events}

    def test_stop_at_the_limit(self):
        """A clock is over once its limit has passed, and never without one."""
        assert Clock(0.0).is_over()
        assert not Clock(None).is_over()
        assert not Clock(3600.0, started=time.monotonic()).is_over()


class TestMinBudget:
    def test_of_the_chain_is_proved(self):
        """43 bytes: a plan is found for them, and op 3 holds them whatever runs."""
        found = min_budget(chain())

        assert (found.budget_bytes, found.bound_bytes) == (43, 43)
        assert found.plan.steps == CHAIN_RECOMPUTED
        assert (found.site.op, found.bound_site.op) == ("third_back", "third_back")

    def test_counts_all_outputs_at_once(self):
        """Three outputs of 4 bytes are all held at the end: 12 bytes."""
        graph = knapsack(size=4)
        found = min_budget(replace(graph, outputs=(0, 1, 2, 5)))

        assert (found.budget_bytes, found.bound_bytes) == (12, 12)

    def test_says_what_would_lower_it(self):
        """With op 0 pinned a stays beside t, b, loss, gb and x: 53 bytes at op 3.

        With op 0 again they are 43; at half the batch 1 + 1 + 5 + 10 + 1 + 10 = 28.
        """
        graph = chain()
        pinned = replace(graph.ops[0], recompute=Recompute(False, Reason.RANDOM))
        found = min_budget(replace(graph, ops=(pinned, *graph.ops[1:])))

        assert found.budget_bytes == 53
        assert [(one.what, one.budget_bytes) for one in found.remedies] == [
            ("half the batch", 28),
            ("run first (net.0) again, pinned: random", 43),
        ]

    @pytest.mark.parametrize("seed", range(6))
    def test_is_the_peak_of_its_plan(self, seed):
        """A plan that recomputes less than the squeezed one may have a lower peak."""
        found = min_budget(random_step(seed, ops=40), options=Options(work_limit=2000))

        assert found.plan.peak_bytes == found.budget_bytes
