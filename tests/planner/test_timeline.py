"""Removing recomputations one by one, against replaying the whole schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.planner.fill import recomputations
from encamp.planner.jit import random_state
from encamp.planner.reduce import unreduced
from encamp.planner.repair import Taste, repair
from encamp.planner.replay_fast import FORBIDDEN, drop_dead, memory, peak, select
from encamp.planner.start import unplanned
from encamp.planner.timeline import commit, remove, timeline, top, undo
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, CHAIN_RECOMPUTED_PEAK, chain
from random_steps import random_step
from strategies import graphs, schedules


def test_the_chain_without_its_recomputation():
    """Without the second run of op 0 the peak is 53 bytes again, not 43."""
    problem = unreduced(chain())
    line = timeline(problem, np.array(CHAIN_RECOMPUTED))
    assert top(line) == CHAIN_RECOMPUTED_PEAK

    remove(problem, line, 4)
    assert top(line) == CHAIN_PEAK
    undo(line)
    assert top(line) == CHAIN_RECOMPUTED_PEAK


def test_what_served_only_the_removed_goes_too():
    """The second run of op 0 is only for that of op 1; its third is for op 4."""
    problem = unreduced(chain())
    line = timeline(problem, np.array([0, 1, 2, 0, 1, 3, 0, 4, 5]))

    remove(problem, line, 4)

    assert np.flatnonzero(line.stays).tolist() == [0, 1, 2, 5, 6, 7, 8]
    assert top(line) == CHAIN_RECOMPUTED_PEAK


@given(st.data())
def test_equals_replaying_what_stays(data):
    """After each removal, kept or undone, the peak is that of what stays.

    Whatever breaks a rule holds more than any budget.
    """
    graph = data.draw(graphs())
    values = [value.id for value in graph.values if not value.resident]
    barred = data.draw(st.sets(st.sampled_from(values))) if values else ()
    problem = unreduced(graph, barred)
    steps = drop_dead(problem, np.array(data.draw(schedules(graph)), dtype=np.int64))
    line = timeline(problem, steps)
    for step in data.draw(st.permutations(recomputations(problem, steps).tolist())):
        if not line.stays[step]:
            continue
        before, stayed = top(line), line.stays.copy()
        _remove_and_compare(problem, line, step)
        if data.draw(st.booleans()):
            undo(line)
            assert top(line) == before
            assert line.stays.tolist() == stayed.tolist()
        commit(line)


def test_an_unchanged_timeline_has_the_peak_of_its_schedule():
    """The chain's unplanned peak is 53 bytes."""
    problem = unreduced(chain())

    line = timeline(problem, unplanned(problem))

    assert top(line) == memory(problem, unplanned(problem)).max() == CHAIN_PEAK


@pytest.mark.parametrize("seed", range(20))
def test_equals_replaying_where_much_is_recomputed(seed):
    """On steps of 60 ops repaired to death, where one removal takes others along."""
    random, problem = np.random.default_rng(seed), unreduced(random_step(seed, ops=60))
    taste = Taste(max_rounds=100)
    steps, _ = repair(problem, unplanned(problem), 0, taste, random_state(seed))
    assert len(steps) > problem.num_ops
    line = timeline(problem, steps)
    for step in random.permutation(recomputations(problem, steps)):
        if line.stays[step]:
            _remove_and_compare(problem, line, step)
            if random.random() < 0.5:
                undo(line)
            commit(line)


def _remove_and_compare(problem, line, step):
    expected = line.stays.copy()
    expected[step] = False
    left = drop_dead(problem, select(line.steps, expected))

    remove(problem, line, step)

    assert select(line.steps, line.stays).tolist() == left.tolist()
    assert min(top(line), FORBIDDEN) == min(peak(problem, left), FORBIDDEN)
