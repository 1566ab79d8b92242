"""All baselines on one footing, and the methods that are not made of segments."""

import ctypes
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.check import check
from encamp.errors import InternalError
from encamp.graph import CostGraph
from encamp.planner import Options, solve
from encamp.planner.baselines import (
    METHODS,
    Baseline,
    Limits,
    Method,
    compare,
    compare_all,
)
from encamp.planner.baselines.boundary import boundary_cut
from encamp.planner.baselines.eviction import evicting
from encamp.planner.baselines.quiet import stdout_to_stderr
from encamp.planner.baselines.stagewise import solve_stages
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import duration, peak
from encamp.replay import replay
from graphs import (
    CHAIN_DURATION,
    CHAIN_PEAK,
    CHAIN_RECOMPUTED,
    CHAIN_RECOMPUTED_PEAK,
    chain,
    with_op,
    with_value,
)
from oracle import least_duration, least_peak
from small_steps import small_step
from strategies import graphs
from training_chains import Stage, random_chain, training_chain, uniform_chain

LIMITS = Limits(0, 10.0)
step = cache(small_step)


def named(name: str) -> Method:
    """Return the method of that name."""
    (method,) = (method for method in METHODS if method.name == name)
    return method


def arrived_at(graph: CostGraph, method: Method, budget: int) -> Baseline:
    """Return what one method arrives at under a budget."""
    (found,) = compare(graph, budget, seconds=10.0, methods=[method])
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
class TestEveryMethod:
    def test_keeps_the_rules_and_says_what_it_takes(self, method):
        """On 25 steps: valid, of the replay's figures, no better than possible."""
        for seed in range(25):
            graph = step(seed)
            unplanned = replay(graph)
            budget = (least_peak(graph) + unplanned.peak_bytes) // 2
            found = arrived_at(graph, method, budget)
            if not found.steps:
                assert not found.fits
                continue
            timeline = replay(graph, found.steps)

            assert check(graph, found.steps, found.peak_bytes) == ()
            assert timeline.peak_bytes == found.peak_bytes
            assert timeline.duration_ns == found.duration_ns
            assert found.fits == (found.peak_bytes <= budget)
            assert found.duration_ns >= least_duration(graph, found.peak_bytes)

    def test_lowest_peak_where_nothing_fits(self, method):
        """Under no budget at all it says so, and how near it came."""
        graph = uniform_chain(6)
        found = arrived_at(graph, method, 0)

        assert not found.fits
        assert found.peak_bytes <= replay(graph).peak_bytes


@pytest.mark.parametrize(
    "name", ["keep everything", "rotor", "boundary cut", "DTR", "Checkmate"]
)
def test_a_budget_of_the_unplanned_peak_costs_nothing(name):
    """Where memory is not short these methods recompute nothing."""
    graph = random_chain(3, 6)
    budget = replay(graph).peak_bytes
    found = arrived_at(graph, named(name), budget)

    assert found.steps == tuple(range(len(graph.ops)))


class TestChoice:
    """Of a method's schedules the shortest that fits counts, else the lowest."""

    method = Method("two ways", "here", lambda *_: map(np.array, TestChoice.ways))
    ways = ((0, 1, 2, 3, 4, 5), CHAIN_RECOMPUTED)

    def test_the_shortest_that_fits(self):
        """Within 53 bytes nothing need be recomputed, within 43 op 0 must."""
        graph = chain()
        found = {
            budget: arrived_at(graph, self.method, budget)
            for budget in (CHAIN_PEAK, CHAIN_PEAK - 1, CHAIN_RECOMPUTED_PEAK - 1)
        }

        assert found[53].steps == self.ways[0]
        assert found[53].duration_ns == CHAIN_DURATION
        assert (found[52].steps, found[52].fits) == (CHAIN_RECOMPUTED, True)
        assert (found[42].steps, found[42].fits) == (CHAIN_RECOMPUTED, False)

    def test_a_schedule_that_breaks_a_rule_is_a_bug(self):
        """A method that leaves out an op does not get away with it."""
        broken = Method("hasty", "here", lambda *_: [np.arange(5)])
        graph = chain()

        with pytest.raises(InternalError, match="'hasty' made a schedule of 'chain'"):
            arrived_at(graph, broken, 0)


class TestCompare:
    def test_all_methods_on_a_small_graph(self):
        """Ten rows in the order of the table, those that fit 43 bytes at +100 ns."""
        rows = compare(chain(), CHAIN_RECOMPUTED_PEAK)

        assert [row.name for row in rows] == [method.name for method in METHODS]
        assert {row.name for row in rows if row.fits} == {
            "Chen's greedy", "revolve", "rotor", "boundary cut", "DTR", "Checkmate"
        }  # fmt: skip
        assert {row.duration_ns for row in rows if row.fits} == {CHAIN_DURATION + 100}

    @settings(max_examples=60, deadline=None)
    @given(graph=graphs(), percent=st.integers(0, 110))
    def test_any_graph_has_baselines(self, graph, percent):
        """Also without backward, outputs or bytes; and all keep the rules."""
        budget = replay(graph).peak_bytes * percent // 100
        for row in compare(graph, budget):
            if row.steps:
                assert check(graph, row.steps, row.peak_bytes) == ()
                assert row.duration_ns >= graph.duration_ns

    def test_figures_scale_to_the_largest_steps(self):
        """Times 2**45 bytes and 10**13 ns every method does the same.

        All but DTR, whose staleness counts from 1 ns.
        """
        graph = random_chain(3, 6)
        large = replace(
            graph,
            values=tuple(replace(v, bytes=v.bytes << 45) for v in graph.values),
            ops=tuple(
                replace(
                    op,
                    duration_ns=op.duration_ns * 10**13,
                    workspace_bytes=op.workspace_bytes << 45,
                )
                for op in graph.ops
            ),
        )
        methods = [method for method in METHODS if method.name != "DTR"]
        budget = replay(graph).peak_bytes * 3 // 4
        rows = compare(graph, budget, methods=methods)

        assert [
            (row.peak_bytes, row.duration_ns)
            for row in compare(large, budget << 45, methods=methods)
        ] == [(row.peak_bytes << 45, row.duration_ns * 10**13) for row in rows]

    def test_many_budgets_at_once(self):
        """Each budget's rows are those of `compare`; there may be no budget at all."""
        graph = random_chain(4, 5)
        budgets = [0, 20, 30, replay(graph).peak_bytes]

        assert compare_all(graph, []) == []
        assert compare_all(graph, budgets) == [compare(graph, b) for b in budgets]

    def test_a_method_for_small_graphs_is_left_out(self):
        """Checkmate's program takes a hundred ops; this chain has 102."""
        rows = compare(uniform_chain(51), 40)

        assert [row.name for row in rows] == [method.name for method in METHODS[:-1]]


class TestBoundaryCut:
    def test_drops_the_cheapest_bytes_first(self):
        """Of `a` (10 bytes, 100 ns) and `b` (20 bytes, read at once) `a` goes."""
        schedules = [steps.tolist() for steps in boundary_cut(reduce(chain()), LIMITS)]

        assert schedules[0] == [0, 1, 2, 3, 4, 5]
        assert list(CHAIN_RECOMPUTED) in schedules

    def test_does_not_see_the_peaks(self):
        """With 100 bytes of workspace at op 4 all of its schedules peak there."""
        problem = reduce(with_op(chain(), 4, workspace_bytes=100))
        peaks = {int(peak(problem, steps)) for steps in boundary_cut(problem, LIMITS)}

        # x a loss gb ga at op 4, whatever crossed the boundary: 42 bytes.
        assert peaks == {142}

    def test_a_step_without_backward_has_no_boundary(self):
        """It runs as it is."""
        graph = chain()
        forward = type(graph)("forward", graph.values[:5], graph.ops[:3], (3,))
        (steps,) = boundary_cut(reduce(forward), LIMITS)

        assert steps.tolist() == [0, 1, 2]


class TestEviction:
    def test_evicts_what_is_cheap_large_and_stale(self):
        """At op 3 `a` must go, the only value not in use; op 0 makes it again."""
        (steps,) = evicting(reduce(chain()), Limits(CHAIN_RECOMPUTED_PEAK, 1.0))

        assert tuple(steps.tolist()) == CHAIN_RECOMPUTED

    @pytest.mark.parametrize(
        ("bytes_of_a2", "ns_of_a1", "gone"), [(8, 10, 0), (100, 10, 1), (8, 1000, 1)]
    )
    def test_the_score(self, bytes_of_a2, ns_of_a1, gone):
        """When f3 is short of room it may evict a1, 11 ns old, or a2, 1 ns old.

        Alike in cost and bytes, a1 goes. Of more than 11 times the bytes a2 goes, and
        also if a1 takes more than 11 times as long to make.
        """
        stages = [Stage(state=8, gradient=0, forward_ns=10) for _ in range(4)]
        graph = with_op(training_chain(stages), 0, duration_ns=ns_of_a1)
        (a2,) = graph.ops[1].outputs
        graph = with_value(graph, a2, bytes=bytes_of_a2)
        (steps,) = evicting(reduce(graph), Limits(8 * 2 + bytes_of_a2 + 6, 1.0))

        assert set(steps.tolist()[4:]) == {gone, 4, 5, 6, 7}

    def test_two_root_n_bytes_reverse_a_chain_in_linear_time(self):
        """As its authors prove for chains: fewer than 4 n runs for n = 100 and 400."""
        for length, root in ((100, 10), (400, 20)):
            (steps,) = evicting(reduce(uniform_chain(length)), Limits(2 * root, 1.0))

            assert len(steps) < 4 * length

    def test_stays_under_the_unplanned_peak(self):
        """It never goes over the unplanned peak, and at that peak evicts nothing."""
        for seed in range(30):
            graph = step(seed)
            problem = reduce(graph)
            most = replay(graph).peak_bytes
            for budget in range(most + 1):
                (steps,) = evicting(problem, Limits(budget, 1.0))

                assert peak(problem, steps) <= most, f"seed {seed}"
            assert steps.tolist() == list(range(len(graph.ops)))


class TestCheckmate:
    @pytest.mark.parametrize("block", range(4))
    def test_is_the_optimum_of_the_given_order(self, block):
        """What it proves is what exhaustive search finds, at every feasible budget."""
        for seed in range(block * 10, block * 10 + 10):
            graph = step(seed)
            problem = reduce(graph)
            least = least_peak(graph, in_order=True)
            for budget in range(least, replay(graph).peak_bytes):
                found = solve_stages(problem, Limits(budget, 10.0))
                best = least_duration(graph, budget, in_order=True)

                assert found.complete
                assert found.steps is not None, f"seed {seed}"
                assert peak(problem, found.steps) <= budget
                assert duration(problem, found.steps) == best, f"seed {seed}"

    def test_proves_that_nothing_fits(self):
        """One byte under the smallest peak there is no schedule."""
        for seed in range(10):
            graph = step(seed)
            budget = least_peak(graph, in_order=True) - 1
            found = solve_stages(reduce(graph), Limits(budget, 10.0))

            assert (found.steps, found.complete) == (None, True)

    def test_agrees_with_encamp_on_a_chain(self):
        """Two methods, one optimum: on a chain of eight stages at 70 % of the peak."""
        graph = random_chain(5, 8)
        budget = replay(graph).peak_bytes * 7 // 10
        found = solve_stages(reduce(graph), Limits(budget, 20.0))
        plan = solve(graph, budget, options=Options(target_gap=0.0))

        assert found.complete
        assert plan.duration_ns == duration(reduce(graph), found.steps)

    def test_a_library_that_prints_does_not_reach_stdout(self, capfd):
        """What C code prints inside goes to stderr, what comes after to stdout."""
        libc = ctypes.CDLL(None)
        with stdout_to_stderr():
            libc.puts(b"from the solver")
        libc.puts(b"a result")
        libc.fflush(None)

        assert capfd.readouterr() == ("a result\n", "from the solver\n")

    def test_within_no_time_there_may_be_no_schedule(self):
        """Stopped at once it claims nothing."""
        found = solve_stages(reduce(random_chain(7, 20)), Limits(60, 0.0))

        assert not found.complete
