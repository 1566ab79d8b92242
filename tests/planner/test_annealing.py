"""Searches over orders: against the oracle, within limits, where they may be begun."""

import json
from dataclasses import replace
from itertools import count

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError, NoPlanError
from encamp.plan import Order, Status
from encamp.planner import Cancel, Options, min_budget, solve, sweep
from encamp.planner import clock as clock_module
from encamp.replay import replay
from encamp.wire import plan_to_json
from forward_steps import branches, forward_step, layered
from graphs import chain
from oracle import least_duration, least_peak

# No limit: a first run compiles the search, which may take a slow machine a minute.
ANY, FIXED = Options(time_limit_s=None), Options(time_limit_s=None, fixed_order=True)


def keeps_order(plan):
    """Return whether the first runs of a plan are in the order of the ops."""
    firsts = [plan.steps.index(op) for op in range(len(set(plan.steps)))]
    return firsts == sorted(firsts)


class TestOfTwoBranches:
    def test_another_order_needs_no_recomputation(self):
        """At 12 bytes one branch after the other is the optimum, and proved so."""
        plan = solve(branches(), 12, options=ANY)

        assert plan.duration_ns == 15
        assert plan.status is Status.OPTIMAL
        assert plan.certificate.order is Order.FREE
        assert not keeps_order(plan)

    @pytest.mark.parametrize("options", [FIXED, replace(ANY, annealing=False)])
    def test_the_given_order_needs_two(self, options):
        """Without the search, or with the order fixed, 12 ns are added."""
        plan = solve(branches(), 12, options=options)

        assert plan.duration_ns == 15 + 12
        assert keeps_order(plan)
        assert "annealing" not in plan.solver.stages


@pytest.mark.parametrize("block", range(10))
class TestAgainstTheOracle:
    def test_bounds_and_optima(self, block):
        """A bound holds for the schedules that its order says, the plan among them."""
        for seed in range(block * 6, block * 6 + 6):
            graph = forward_step(seed)
            low, high = least_peak(graph), replay(graph).peak_bytes
            for budget in range(low, high, max(1, (high - low) // 2)):
                best = least_duration(graph, budget)
                try:
                    plan = solve(graph, budget, options=ANY)
                except InfeasibleError as error:
                    refuted = error.bound_bytes > budget
                    assert not refuted, f"seed {seed}"
                    continue
                optimum = best
                if plan.certificate.order is Order.GIVEN:
                    assert keeps_order(plan)
                    optimum = least_duration(graph, budget, in_order=True)

                assert check(graph, plan, budget) == ()
                assert plan.duration_ns >= best
                assert plan.certificate.lower_bound_ns <= optimum, f"seed {seed}"
                if plan.status is Status.OPTIMAL:
                    assert plan.duration_ns == optimum

    def test_a_fixed_order_is_kept(self, block):
        """First runs are in order, and no plan beats the best that are."""
        for seed in range(block * 6, block * 6 + 6):
            graph = forward_step(seed)
            low = least_peak(graph, in_order=True)
            if low >= replay(graph).peak_bytes:
                continue
            try:
                plan = solve(graph, low, options=FIXED)
            except InfeasibleError as error:
                refuted = error.bound_bytes > low
                assert not refuted, f"seed {seed}"
                continue

            assert keeps_order(plan)
            assert plan.duration_ns >= least_duration(graph, low, in_order=True)


def test_most_small_graphs_are_planned_to_the_optimum_of_any_order():
    """At the smallest peak of any schedule most plans are the best there are."""
    solved = total = 0
    for seed in range(100, 140):
        graph = forward_step(seed)
        budget = least_peak(graph)
        if budget >= replay(graph).peak_bytes:
            continue
        total += 1
        try:
            plan = solve(graph, budget, options=ANY)
        except InfeasibleError:
            continue
        solved += plan.duration_ns == least_duration(graph, budget)

    assert total >= 10
    assert solved >= 0.9 * total


@pytest.mark.parametrize("seed", range(6))
def test_every_plan_of_a_wide_graph_is_valid(seed):
    """Replay and check agree with the search on graphs too large for the oracle."""
    graph = layered(seed, 8, 5)
    budget = replay(graph).peak_bytes * 9 // 10
    plan = solve(graph, budget, options=Options(work_limit=2_000))

    assert check(graph, plan, budget) == ()
    assert plan.certificate.lower_bound_ns <= plan.duration_ns
    assert keeps_order(plan) or plan.certificate.order is Order.FREE


def test_the_smallest_budget_is_that_of_any_order():
    """Of most small graphs it is the smallest peak of all schedules."""
    exact = 0
    for seed in range(200, 220):
        graph = forward_step(seed)
        found, least = min_budget(graph, options=ANY), least_peak(graph)
        exact += found.budget_bytes == least

        assert found.bound_bytes <= least <= found.budget_bytes, f"seed {seed}"
        assert check(graph, found.plan, found.budget_bytes) == ()

    assert exact >= 18


def test_a_sweep_reorders_too():
    """At 12 bytes as a single solve does, with a bound that covers the plan."""
    for options, duration in ((ANY, 15), (FIXED, 27)):
        (plan,) = sweep(branches(), [12], options=options).plans

        assert plan.duration_ns == duration >= plan.certificate.lower_bound_ns
        assert keeps_order(plan) == options.fixed_order


def test_a_step_with_a_backward_keeps_its_order():
    """The chain has two phases: no search over orders is begun."""
    events = []
    plan = solve(chain(), 43, progress=events.append)

    assert keeps_order(plan)
    assert "annealing" not in {event.stage for event in events}


class TestLimits:
    def test_cancelled_within_it_returns_the_best_so_far(self):
        """Told to stop at its first plan, it ends with one that fits."""
        graph = layered(1, 12, 6)
        budget = replay(graph).peak_bytes * 9 // 10
        cancel = Cancel()

        def listen(event):
            if event.stage == "annealing" and event.duration_ns is not None:
                cancel.set()

        plan = solve(graph, budget, options=ANY, progress=listen, cancel=cancel)

        assert check(graph, plan, budget) == ()
        assert plan.solver.stages[-1] == "annealing"

    @pytest.mark.parametrize("work", [50, 400])
    def test_of_work_give_one_plan_in_every_run(self, monkeypatch, work):
        """The same but for the seconds, though each look at the clock is an hour."""
        first = written(work)
        hours = count(step=3600)
        monkeypatch.setattr(clock_module.time, "monotonic", lambda: next(hours))

        assert written(work) == first


def written(work):
    """Return the file of a plan, without seconds, or what was said instead."""
    graph = layered(2, 10, 5)
    budget = replay(graph).peak_bytes * 7 // 10
    try:
        plan = solve(graph, budget, options=Options(work_limit=work, target_gap=0.0))
    except (InfeasibleError, NoPlanError) as error:
        return str(error)
    document = json.loads(plan_to_json(plan))
    del document["solver"]["seconds"]
    return json.dumps(document)
