"""The linear relaxation alone: what it proves, prices and leads to."""

from random import Random

import numpy as np
import pytest

from encamp.planner.exact import solve_exactly
from encamp.planner.program import Program
from encamp.planner.reduce import reduce
from encamp.planner.relaxation import Limits, proven, relax
from encamp.replay import replay
from graphs import chain
from oracle import least_duration, least_peak
from small_steps import small_step
from steps import knapsack

SEEDS = range(60)


def limits(*, seconds=10.0, iterations=10**6, stop=lambda: False) -> Limits:
    """Return limits that do not bind unless told to."""
    return Limits(iterations, lambda: seconds, stop)


def backward_program(graph, budget) -> Program:
    """Return the program of a graph with a moment at every backward op."""
    problem = reduce(graph)
    return Program(problem, range(problem.num_forward, problem.num_ops), budget)


class TestKnapsack:
    """Beside a, two values of 2 bytes in room for 3: half a run, at least 5 ns."""

    program = Program(reduce(knapsack(size=2)), [3], 5)

    def test_half_a_run_is_proved(self):
        """A schedule runs one of them again: 10 ns."""
        assert relax(self.program, limits()).added_ns == 5

    def test_a_dive_makes_it_whole(self):
        """One op runs again, not a half."""
        (runs,) = relax(self.program, limits()).runs

        assert len(runs) == 1

    def test_its_moment_has_a_price(self):
        """Another byte of room would save 2.5 ns."""
        assert relax(self.program, limits()).priced == (3,)

    @pytest.mark.parametrize(
        "short", [{"iterations": 0}, {"seconds": 0.0}, {"stop": lambda: True}]
    )
    def test_nothing_is_claimed_at_a_limit(self, short):
        """Without an optimum there are no prices."""
        found = relax(self.program, limits(**short))

        assert found is None or found.added_ns <= 5

    def test_room_for_all_has_no_price(self):
        """With 6 bytes nothing runs again."""
        found = relax(Program(reduce(knapsack(size=2)), [3], 6), limits())

        assert (found.added_ns, found.priced, found.runs) == (0, (), (frozenset(),))

    def test_no_room_proves_nothing(self):
        """A byte does not hold a; that there is no solution is for others to prove."""
        assert relax(Program(reduce(knapsack(size=2)), [3], 1), limits()) is None


@pytest.mark.parametrize("size", [2, 2**50])
@pytest.mark.parametrize("cost", [10, 10**15])
def test_magnitudes_lose_nothing_that_counts(size, cost):
    """Half a run again, to a millionth, from bytes to pebibytes and to weeks."""
    program = Program(reduce(knapsack(size=size, cost=cost)), [3], 5 * size // 2)
    found = relax(program, limits())

    assert cost / 2 * (1 - 1e-6) <= found.added_ns <= cost / 2


def test_the_chain_runs_a_tenth_again():
    """At op 3 there is room for 9 bytes of the 10 of a, whose op takes 100 ns."""
    assert relax(Program(reduce(chain()), [3], 52), limits()).added_ns == 10


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bound_exceeds_what_a_schedule_adds(seed):
    """Relaxed, solved and by any prices: all are at most the optimum in order."""
    graph, random = small_step(seed), Random(seed)  # noqa: S311 - nothing secret
    unplanned = replay(graph).duration_ns
    for budget in range(least_peak(graph), replay(graph).peak_bytes, 3):
        best = least_duration(graph, budget, in_order=True)
        if best is None:
            continue
        program = backward_program(graph, budget)
        rows = len(program.clauses) + len(program.capacities)
        prices = np.array([random.uniform(-1, 9) for _ in range(rows)])
        exact = solve_exactly(program, below_ns=None, work=1.0, stop=lambda: False)
        relaxed = relax(program, limits())

        assert proven(program, prices) <= exact.added_ns <= best - unplanned
        assert relaxed is None or relaxed.added_ns <= exact.added_ns
