"""Repair and fill alone, on the chain of `graphs.chain`."""

import numpy as np
import pytest

from encamp.planner.fill import attempts, fill, recomputations
from encamp.planner.jit import random_state
from encamp.planner.reduce import reduce
from encamp.planner.repair import (
    FITS,
    NEVER,
    STUCK,
    UNFINISHED,
    Taste,
    repair,
    uses_around,
)
from encamp.planner.replay_fast import peak
from encamp.planner.start import from_held, unplanned
from graphs import CHAIN_RECOMPUTED, chain

RANDOM = random_state(0)


def repaired(budget: int, **taste):
    """Return the unplanned chain repaired, and how that ended."""
    problem = reduce(chain())
    steps, ended = repair(
        problem, unplanned(problem), budget, Taste(**taste), random_state(0)
    )
    return steps.tolist(), ended


class TestUses:
    def test_say_where_each_value_stands(self):
        """At step 3 of the chain, a was read at step 1 and is read again at step 4."""
        problem = reduce(chain())
        uses = uses_around(problem, unplanned(problem), 3)
        a = int(problem.makes[problem.makes_at[0]])

        assert (uses.born[a], uses.last[a], uses.next[a]) == (0, 1, 4)

    def test_an_output_handed_over_cannot_be_dropped(self):
        """At step 4 the loss stands, though nobody reads it."""
        problem = reduce(chain())
        uses = uses_around(problem, unplanned(problem), 4)
        loss = int(problem.makes[problem.makes_at[2]])

        assert (uses.born[loss], uses.last[loss], uses.next[loss]) == (2, 4, 6)

    def test_nothing_is_used_after_its_last_use(self):
        """At step 4, b has been read for the last time."""
        problem = reduce(chain())
        uses = uses_around(problem, unplanned(problem), 4)

        assert uses.next[int(problem.makes[problem.makes_at[1]])] == NEVER


class TestRepair:
    def test_recomputes_just_before_the_next_use(self):
        """Under 53 bytes a is dropped, and made again before op 4 reads it."""
        assert repaired(43) == (list(CHAIN_RECOMPUTED), FITS)

    def test_leaves_a_schedule_that_fits(self):
        """At 53 bytes nothing is over the budget."""
        assert repaired(53) == ([*range(6)], FITS)

    def test_is_stuck_where_one_op_is_too_large(self):
        """Op 3 holds 43 bytes by itself."""
        assert repaired(42)[1] == STUCK

    def test_pauses_at_its_limit_of_drops(self):
        """With no drop allowed it has looked at nothing."""
        assert repaired(43, max_rounds=0)[1] == UNFINISHED

    def test_keeps_to_its_limit_of_duration(self):
        """The chain takes 2100 ns; op 0 again would make it 2200."""
        assert repaired(43, duration_limit=2200)[1] == STUCK
        assert repaired(43, duration_limit=2201)[1] == FITS

    def test_never_runs_a_pinned_op_again(self):
        """With op 0 pinned there is nothing to drop."""
        problem = reduce(chain())
        problem.pinned[0] = True

        assert repair(problem, unplanned(problem), 43, Taste(), RANDOM)[1] == STUCK


class TestFill:
    @pytest.mark.parametrize(("budget", "length"), [(43, 7), (52, 7), (53, 6)])
    def test_takes_out_what_the_budget_allows(self, budget, length):
        """At 53 bytes op 0 need not run again; under it, it must."""
        problem = reduce(chain())
        steps = fill(problem, np.array(CHAIN_RECOMPUTED), budget, 0.0, RANDOM)

        assert len(steps) == length
        assert peak(problem, steps) <= budget

    def test_tries_the_dearest_byte_first(self):
        """Op 1 takes 10 ns per byte again, op 0 takes 10, op 4 takes 50."""
        problem = reduce(chain())
        steps = np.array([0, 1, 2, 3, 0, 4, 1, 3, 4, 5])

        assert recomputations(problem, steps).tolist() == [4, 6, 7, 8]
        assert attempts(problem, steps, 0.0, RANDOM).tolist()[0] == 8


def test_a_start_recomputes_what_is_not_held_just_in_time():
    """Holding nothing, op 3 needs b and so op 1 again, which needs op 0 again."""
    problem = reduce(chain())
    nothing = np.zeros(problem.num_values, dtype=np.bool_)

    assert from_held(problem, nothing).tolist() == [0, 1, 2, 0, 1, 3, 4, 5]
