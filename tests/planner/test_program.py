"""The integer program alone: its rules, its answers, what they expand to."""

import pytest

from encamp.planner.exact import solve_exactly
from encamp.planner.program import Program, expand
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import duration, peak
from graphs import chain
from steps import knapsack

SOLVE = {"work": 1.0, "stop": lambda: False}


def answer(graph, ops, budget, below=None):
    """Return what the program of a graph at some ops answers."""
    program = Program(reduce(graph), ops, budget)
    return solve_exactly(program, below_ns=below, **SOLVE)


class TestOneMoment:
    @pytest.mark.parametrize(("budget", "added"), [(53, 0), (52, 100), (43, 100)])
    def test_runs_again_what_does_not_fit(self, budget, added):
        """At op 3 of the chain a (10 bytes) is held, or op 0 runs again (100 ns)."""
        found = answer(chain(), [3], budget)

        assert (found.added_ns, found.complete) == (added, True)
        assert found.runs == (frozenset({0} if added else ()),)

    def test_is_infeasible_where_the_moment_itself_does_not_fit(self):
        """Op 3 alone holds 43 bytes."""
        assert answer(chain(), [3], 42).added_ns is None

    def test_proves_the_limit_where_nothing_is_below_it(self):
        """Under 53 bytes no schedule adds less than 100 ns."""
        found = answer(chain(), [3], 52, below=100)

        assert (found.added_ns, found.complete, found.runs) == (100, True, ())

    @pytest.mark.parametrize(("budget", "again"), [(1, 2), (2, 1), (3, 0)])
    def test_a_knapsack_of_equal_items_is_filled(self, budget, again):
        """Three values of 1 byte: as many are held at op 3 as bytes fit."""
        found = answer(knapsack(), [3], budget)

        assert (found.added_ns, len(found.runs[0])) == (10 * again, again)

    def test_a_pinned_op_is_held(self):
        """With op 0 pinned, a must be held: 53 bytes or nothing."""
        problem = reduce(chain())
        problem.pinned[0] = True

        for budget, added in ((52, None), (53, 0)):
            program = Program(problem, [3], budget)
            assert solve_exactly(program, below_ns=None, **SOLVE).added_ns == added


class TestSeveralMoments:
    def test_carry_asks_the_stage_before(self):
        """At op 4 a is an input: held since op 3, or made again between."""
        assert answer(chain(), [3, 4], 53).runs == (frozenset(), frozenset())
        assert answer(chain(), [3, 4], 43).runs == (frozenset({0}), frozenset())

    def test_each_moment_must_fit(self):
        """Op 4 holds 42 bytes whatever runs again, op 3 holds 43."""
        assert answer(chain(), [3, 4], 42).added_ns is None
        assert answer(chain(), [4], 42).added_ns == 0
        assert answer(chain(), [4], 41).added_ns is None


def test_an_answer_expands_just_in_time():
    """Op 0 runs again just before op 4, which reads a."""
    problem = reduce(chain())
    steps = expand(Program(problem, [3], 43), [frozenset({0})])

    assert steps.tolist() == [0, 1, 2, 3, 0, 4, 5]
    assert (peak(problem, steps), duration(problem, steps)) == (43, 2200)
