"""The methods for chains: revolve's closed form, rotor against brute force."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from encamp.planner.baselines import Limits
from encamp.planner.baselines.binomial import (
    first_advance,
    least_advances,
    reach,
    revolve,
    revolve_actions,
)
from encamp.planner.baselines.chain import Action, Run, chain_of, unroll
from encamp.planner.baselines.chain_costs import costs_of
from encamp.planner.baselines.chain_program import (
    NEVER,
    best_times,
    chain_program,
    chosen_actions,
    in_slots,
)
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import duration, peak
from encamp.replay import replay
from oracle import least_duration
from training_chains import Stage, random_chain, training_chain, uniform_chain

LARGEST = 200
ANY = Limits(0, 0.0)


class TestBinomialCounts:
    def test_least_advances_solve_the_recurrence(self):
        """For lengths and slots up to 200 the closed form is the dynamic program's.

        The program tries every first advance k: k steps, then the rest with one slot
        less, then the k steps again.
        """
        fewest = [length * (length - 1) // 2 for length in range(LARGEST + 1)]
        assert fewest == [least_advances(n, 1) if n else 0 for n in range(LARGEST + 1)]
        for slots in range(2, LARGEST + 1):
            fewer, fewest = np.array(fewest), [0, 0]
            for length in range(2, LARGEST + 1):
                k = np.arange(1, length)
                total = k + fewer[length - k] + np.array(fewest)[k]
                fewest.append(int(total.min()))

                assert least_advances(length, slots) == fewest[length]

    def test_first_advances_attain_the_least(self):
        """Advancing as far as `first_advance` says never costs more than the least."""
        for slots in range(2, LARGEST + 1):
            for length in range(2, LARGEST + 1):
                k = first_advance(length, slots)
                rest = least_advances(length - k, slots - 1)

                assert k + rest + least_advances(k, slots) == least_advances(
                    length, slots
                )

    def test_a_chain_of_ten_in_three_slots(self):
        """Two passes reach binomial(5, 3) = 10 steps: 2 * 10 - binomial(5, 4) = 15."""
        assert reach(3, 2) == 10
        assert least_advances(10, 3) == 15

    @pytest.mark.parametrize("length", [1, 2, 3, 7, 16])
    def test_schedules_recompute_that_often(self, length):
        """On a uniform chain the sweep takes length - 1 advances, the rest is again."""
        graph = uniform_chain(length)
        schedules = list(revolve(reduce(graph), ANY))

        assert len(schedules) == length
        for slots, steps in enumerate(schedules, start=1):
            again = len(steps) - len(graph.ops)
            assert again == least_advances(length, slots) - (length - 1)

    def test_schedules_hold_no_more_than_their_slots(self):
        """Beside the slots: what a step reads and makes, the loss, a gradient."""
        graph = uniform_chain(16)

        for slots, steps in enumerate(revolve(reduce(graph), ANY), start=1):
            # One of the slots is for x, which is resident and has no bytes.
            assert replay(graph, steps.tolist()).peak_bytes <= (slots - 1) + 4

    def test_one_slot_starts_over_for_every_step(self):
        """Three steps with x alone: f0 f1 f2, b2 from a2, f0 again for b1, then b0."""
        chain = chain_of(reduce(uniform_chain(3)))
        steps = unroll(chain, revolve_actions(0, 3, 1))

        assert steps.tolist() == [0, 1, 2, 3, 0, 4, 5]


def trees(start: int, stop: int) -> Iterator[list[Action]]:
    """Yield every way to run segments from `start` to before `stop` and back.

    A segment's values are saved at once, or it is passed and later run again.
    """
    if stop - start == 1:
        yield [(Run.FORWARD, start), (Run.BACKWARD, start)]
        return
    for rest in trees(start + 1, stop):
        yield [(Run.FORWARD, start), *rest, (Run.BACKWARD, start)]
    for split in range(start + 1, stop):
        passing = [(Run.FORWARD, segment) for segment in range(start, split)]
        for far in trees(split, stop):
            for near in trees(start, split):
                yield [*passing, *far, *near]


class TestChainProgram:
    def test_there_are_as_many_trees_as_published(self):
        """1, 2, 6, 22, 90: the large Schröder numbers (OEIS A006318)."""
        assert [len(list(trees(0, n))) for n in range(1, 6)] == [1, 2, 6, 22, 90]

    @pytest.mark.parametrize("seed", range(12))
    def test_table_is_brute_force(self, seed):
        """With a slot a byte, each budget's time is the best of all trees replayed."""
        problem = reduce(random_chain(seed, 3 + seed % 3))
        chain = chain_of(problem)
        unplanned = int(duration(problem, np.arange(problem.num_ops)))
        most = int(peak(problem, np.arange(problem.num_ops)))
        schedules = [unroll(chain, actions) for actions in trees(0, len(chain))]
        figures = [
            (int(peak(problem, s)), int(duration(problem, s))) for s in schedules
        ]
        table = best_times(costs_of(chain), most)

        for budget in range(most + 1):
            fitting = [taken for held, taken in figures if held <= budget]
            best = min(fitting) - unplanned if fitting else NEVER
            assert table.times[0, len(chain) - 1, budget] == best

    @pytest.mark.parametrize("unit", [1, 2, 5])
    def test_rounding_up_keeps_to_the_budget(self, unit):
        """However coarse the slots, a schedule holds no more than they stand for."""
        problem = reduce(random_chain(1, 6))
        chain = chain_of(problem)
        costs = in_slots(costs_of(chain), unit)
        slots = int(peak(problem, np.arange(problem.num_ops))) // unit
        table = best_times(costs, slots)
        found = 0
        for m in range(slots + 1):
            if table.times[0, len(chain) - 1, m] < NEVER:
                steps = unroll(chain, chosen_actions(costs, table, m))
                found += 1

                assert peak(problem, steps) <= m * unit
        assert found

    def test_less_memory_never_takes_less_time(self):
        """The schedules come with falling durations and rising peaks."""
        problem = reduce(random_chain(2, 8))
        schedules = list(chain_program(problem, ANY))
        taken = [int(duration(problem, steps)) for steps in schedules]

        assert len(schedules) >= 3
        assert all(more > less for more, less in pairwise(taken))

    @pytest.mark.parametrize("seed", range(6))
    def test_no_schedule_of_any_order_is_shorter_than_the_oracle(self, seed):
        """Checkpoints held to their segment's end are a restriction, never a gain."""
        graph = random_chain(seed, 3)
        problem = reduce(graph)
        for steps in chain_program(problem, ANY):
            best = least_duration(graph, int(peak(problem, steps)))

            assert duration(problem, steps) >= best

    def test_of_four_stages_by_hand(self):
        """Which activation runs again depends on where the memory is short.

        States a1, a2, a3 of 4 bytes take 9, 2 and 1 ns; a gradient has 1 byte.

        | keeps    | f1: a1 a2 | f2            | b3               | again | peak |
        |----------|-----------|---------------|------------------|-------|------|
        | a1 a2 a3 | 8         | a1 a2 a3: 12  | a1 a2 a3 d3: 13  | 0 ns  | 13   |
        | a1 a3    | 8         | a1 a2 a3: 12  | a1 a3 d3: 9      | 2 ns  | 12   |
        | a2 a3    | 8         | a2 a3: 8      | a2 a3 d3: 9      | 9 ns  | 9    |

        Making a2 again once d3 is there takes a1, a2 and d3: no schedule fits 8.
        """
        stages = [Stage(state=4, forward_ns=ns) for ns in (9, 2, 1)]
        chain = chain_of(reduce(training_chain([*stages, Stage(state=0)])))
        table = best_times(costs_of(chain), 13)

        assert table.times[0, 3].tolist() == [NEVER] * 9 + [9, 9, 9, 2, 0]
