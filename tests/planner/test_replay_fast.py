"""The compiled replay against the one that defines what a schedule means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.planner.reduce import reduce, unreduced
from encamp.planner.replay_fast import drop_dead, duration, insert, memory, peak
from encamp.replay import replay
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, CHAIN_RECOMPUTED_PEAK, chain
from strategies import graphs, schedules


@pytest.mark.parametrize("problem_of", [reduce, unreduced])
class TestEqualsReplay:
    @given(st.data())
    def test_on_any_graph_and_schedule(self, problem_of, data):
        """Memory at each step, peak and duration are those of `encamp.replay`."""
        graph = data.draw(graphs())
        steps = data.draw(schedules(graph))
        problem, expected = problem_of(graph), replay(graph, steps)
        order = np.array(steps, dtype=np.int64)

        assert tuple(memory(problem, order).tolist()) == expected.memory
        assert peak(problem, order) == expected.peak_bytes
        assert duration(problem, order) == expected.duration_ns

    def test_on_the_chain(self, problem_of):
        """The chain's peak is 53 bytes, and 43 with one recomputation."""
        problem = problem_of(chain())

        assert peak(problem, np.arange(6)) == CHAIN_PEAK
        assert peak(problem, np.array(CHAIN_RECOMPUTED)) == CHAIN_RECOMPUTED_PEAK


class TestDropDead:
    def test_removes_a_run_that_nobody_reads(self):
        """Op 0 run again at the end makes a value that is never read."""
        problem = reduce(chain())
        useless = np.array([*range(6), 0])

        assert drop_dead(problem, useless).tolist() == [0, 1, 2, 3, 4, 5]

    def test_removes_whole_chains(self):
        """Op 1 run again reads op 0's second run; without a reader both go."""
        problem = reduce(chain())

        assert drop_dead(problem, np.array([0, 1, 2, 3, 4, 0, 1, 5])).tolist() == [
            *range(6)
        ]

    def test_keeps_what_is_read(self):
        """The recomputation of op 0 just before op 4 is read by op 4."""
        steps = np.array(CHAIN_RECOMPUTED)

        assert drop_dead(reduce(chain()), steps).tolist() == steps.tolist()

    def test_a_forward_output_is_not_made_again_for_the_end(self):
        """The loss that stands when the backward begins is the one returned."""
        steps = np.array([0, 1, 2, 3, 2, 4, 5])

        assert drop_dead(reduce(chain()), steps).tolist() == [*range(6)]

    @given(st.data())
    def test_never_raises_peak_or_duration(self, data):
        """Dropping dead runs leaves a schedule that runs and costs no more."""
        graph = data.draw(graphs())
        steps = np.array(data.draw(schedules(graph)), dtype=np.int64)
        problem = reduce(graph)
        shorter = replay(graph, drop_dead(problem, steps).tolist())
        before = replay(graph, steps.tolist())

        assert shorter.peak_bytes <= before.peak_bytes
        assert shorter.duration_ns <= before.duration_ns


def test_insert_puts_ops_before_steps():
    """Ops 2 and 1 before the second step run in their order, once; 0 at the end."""
    problem = reduce(chain())
    places = np.array([6 + 2, 6 + 1, 6 + 2, 2 * 6])

    assert insert(problem, np.array([4, 5]), places).tolist() == [4, 1, 2, 5, 0]
