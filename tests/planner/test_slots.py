"""Schedules on slots: after any moves a board is what the replay of its steps says."""

import numpy as np
import pytest

from encamp.planner.jit import random_state
from encamp.planner.journal import journal, take_back
from encamp.planner.reduce import reduce, unreduced
from encamp.planner.replay_fast import duration, memory
from encamp.planner.slot_moves import move
from encamp.planner.slots import (
    DURATION,
    EMPTY,
    EXCESS,
    MEMORY,
    OWNER,
    REPEATED,
    RUNS,
    add_run,
    board,
    lay_out,
    move_run,
    read_off,
    remove_run,
)
from forward_steps import forward_step, layered
from graphs import chain

BUDGET = 12


def laid_out(problem, budget=BUDGET):
    """Return a board on which every op stands once, in order."""
    found = board(problem, budget, 8 * problem.num_ops + 8)
    order = np.arange(problem.num_ops)
    lay_out(found, order, len(order), np.zeros_like(order))
    return found


def steps_of(found):
    """Return the schedule on a board."""
    steps = np.empty(found.line.shape[1], dtype=np.int64)
    return steps[: read_off(found, steps)].copy()


def assert_agrees(found, problem, budget=BUDGET):
    """Compare all that a board knows with a replay of its steps."""
    steps = steps_of(found)
    held = memory(problem, steps) - problem.resident_bytes
    unit = (budget - problem.resident_bytes) // found.budget
    busy = found.line[OWNER, 1:-1] != EMPTY
    over = held - (budget - problem.resident_bytes)
    runs = np.bincount(steps, minlength=problem.num_ops)

    assert (found.line[MEMORY, 1:-1][busy] * unit == held).all()
    assert found.totals[EXCESS] * unit == np.maximum(over, 0).sum()
    assert found.totals[DURATION] == duration(problem, steps)
    assert found.totals[REPEATED] == (runs > 1).sum()
    assert (found.ops[: problem.num_ops, RUNS] == runs).all()


def reduced(seed):
    """Return a problem whose given values all have a use.

    One that nobody reads is live at the very first step, which a board leaves out.
    """
    graph = forward_step(seed)
    used = {value for op in graph.ops for value in op.inputs} | {*graph.outputs}
    return reduce(graph) if 1 in used else None


class TestRuns:
    def test_of_the_diamond(self):
        """Run again before its second use, op 0 frees its value in between."""
        problem = reduce(layered(0, 3, 2))
        found = laid_out(problem)
        before = found.line.copy()
        late = int(found.ops[2, 11])
        slot = next(s for s in range(late + 1, 40) if found.line[OWNER, s] == EMPTY)
        add_run(found, 0, slot)

        assert_agrees(found, problem)
        remove_run(found, 0, 1)
        assert (found.line == before).all()

    def test_moved_and_moved_back(self):
        """A last op has all the slots after it to itself."""
        problem = reduce(layered(1, 3, 2))
        found = laid_out(problem)
        before = found.line.copy()
        home = int(found.ops[5, 11])
        move_run(found, 5, 0, home + 2)

        assert_agrees(found, problem)
        move_run(found, 5, 0, home)
        assert (found.line == before).all()


class TestMoves:
    @pytest.mark.parametrize("seed", range(40))
    def test_keep_the_board_true(self, seed):
        """After each of many moves the board agrees with the replay."""
        problem = reduced(seed)
        if problem is None:
            return
        found, written, random = laid_out(problem), journal(), random_state(seed)
        for _ in range(150):
            move(found, written, 0.3, random)
            assert_agrees(found, problem)

    @pytest.mark.parametrize("seed", range(10))
    def test_of_wide_graphs_keep_it_true(self, seed):
        """So it is where cascades drag many ops along."""
        problem = reduce(layered(seed, 6, 5))
        found, written, random = laid_out(problem), journal(), random_state(seed)
        for _ in range(300):
            move(found, written, 0.5, random)
        assert_agrees(found, problem)

    @pytest.mark.parametrize("seed", range(20))
    def test_are_taken_back_wholly(self, seed):
        """The board after a move and its undoing is the one before."""
        problem = reduce(layered(seed, 5, 4))
        found, written, random = laid_out(problem), journal(), random_state(seed)
        for _ in range(200):
            move(found, written, 0.3, random)
            before = found.line.copy(), found.totals.copy(), found.ops[:, RUNS].copy()
            move(found, written, 0.3, random)
            take_back(found, written)

            assert (found.line == before[0]).all()
            assert (found.totals == before[1]).all()
            assert (found.ops[:, RUNS] == before[2]).all()


def test_units_round_against_the_schedule():
    """At sizes whose sums leave 64 bits, what fits in units fits in bytes."""
    problem = reduce(layered(3, 4, 3))
    large = problem._replace(sizes=problem.sizes * 2**50 + 1)
    peak = int(memory(large, np.arange(large.num_ops)).max())
    found = laid_out(large, peak)
    total = int(found.line[MEMORY].max()) * found.line.shape[1]

    assert laid_out(large, peak + 2**45).totals[EXCESS] == 0
    assert laid_out(large, peak - 1).totals[EXCESS] > 0
    assert total < 2**62


def test_a_problem_with_given_values_has_them_from_the_first_slot():
    """The tangent of the chain, which op 3 reads, lives until there."""
    problem = unreduced(chain())._replace(num_forward=6)
    found = laid_out(problem, 40)

    assert_agrees(found, problem, 40)
