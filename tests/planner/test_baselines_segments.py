"""Segments: where a forward is cut, what is kept there, and which ops move."""

from dataclasses import replace

import numpy as np
import pytest

from encamp.graph import CostGraph, Kind, Op, Phase, Value
from encamp.planner.baselines import Limits
from encamp.planner.baselines.chain import chain_of
from encamp.planner.baselines.extremes import recompute_everything
from encamp.planner.baselines.greedy import chen_greedy, greedy_cuts
from encamp.planner.baselines.ordering import (
    in_both_orders,
    reordered,
    side_ops_early,
)
from encamp.planner.baselines.segments import (
    anywhere,
    articulations,
    checkpointed,
    counts,
    kept_whole,
    last_reads,
    uniform_cuts,
)
from encamp.planner.baselines.uniform import square_root, uniform
from encamp.planner.problem import Problem
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import peak
from graphs import with_op
from training_chains import Stage, training_chain, uniform_chain

ANY = Limits(0, 0.0)


def skip_connection(reader: int) -> CostGraph:
    """Return a chain of eight stages; op `reader` also reads what op 0 makes."""
    graph = uniform_chain(8)
    first = graph.ops[0].outputs[0]
    return with_op(graph, reader, inputs=(*graph.ops[reader].inputs, first))


def of_the_forward(problem: Problem, values: np.ndarray) -> list[int]:
    """Return the ops that make the given values."""
    return sorted(set(problem.producers[values].tolist()))


class TestCutting:
    def test_a_chain_can_be_cut_anywhere(self):
        """One value crosses every cut of a chain."""
        problem = reduce(uniform_chain(8))

        assert articulations(problem) == anywhere(problem) == [1, 2, 3, 4, 5, 6, 7]

    def test_no_articulation_under_a_skip_connection(self):
        """Cuts 2 and 3 part op 0 from op 3, which reads its value beside its own."""
        problem = reduce(skip_connection(3))

        assert last_reads(problem)[problem.producers == 0].tolist() == [3]
        assert articulations(problem) == [1, 4, 5, 6, 7]

    def test_what_is_read_all_over_is_kept_whole(self):
        """Read across more than half of the forward a value blocks no cut."""
        near, far = reduce(skip_connection(4)), reduce(skip_connection(5))

        # The loss is an output, and kept for that.
        assert of_the_forward(near, np.flatnonzero(kept_whole(near))) == [7]
        assert of_the_forward(far, np.flatnonzero(kept_whole(far))) == [0, 7]
        assert articulations(far) == anywhere(far)

    @pytest.mark.parametrize(
        ("count", "cuts"),
        [(1, []), (2, [4]), (3, [3, 6]), (9, [1, 2, 3, 4, 5, 6, 7, 8])],
    )
    def test_uniform_cuts(self, count, cuts):
        """Nine bytes are cut into equal parts; of 4 and 5 the earlier is taken."""
        problem = reduce(uniform_chain(9))

        assert uniform_cuts(problem, anywhere(problem), count) == cuts

    def test_uniform_cuts_count_bytes(self):
        """Of 6 + 1 + 1 + 1 + 1 bytes half are made by the first op, nearly."""
        problem = reduce(training_chain([Stage(state=6), *[Stage()] * 4]))

        assert uniform_cuts(problem, anywhere(problem), 2) == [1]

    def test_nothing_to_cut(self):
        """A forward of one op is one segment."""
        problem = reduce(uniform_chain(1))

        assert uniform_cuts(problem, anywhere(problem), 3) == []

    def test_counts_grow_sparser(self):
        """One by one to 32, then by a quarter, rounded up."""
        assert list(counts(60)) == [*range(2, 33), 40, 50]


class TestCheckpointing:
    def test_one_cut_by_hand(self):
        """Cut between f1 and f2: a2 is kept, so only a1 is made again, before b1."""
        steps = checkpointed(reduce(uniform_chain(4)), [2])

        assert steps.tolist() == [0, 1, 2, 3, 4, 5, 0, 6, 7]

    def test_recompute_everything_by_hand(self):
        """b3 needs a3 and with it a1 and a2, which then stay for b2 and b1."""
        (steps,) = recompute_everything(reduce(uniform_chain(4)), ANY)

        assert steps.tolist() == [0, 1, 2, 3, 0, 1, 2, 4, 5, 6, 7]

    @pytest.mark.parametrize(("length", "root"), [(4, 2), (9, 3), (16, 4), (100, 10)])
    def test_square_root_of_a_chain(self, length, root):
        """All but the last of sqrt(n) segments run again, but for their last op.

        Live before a segment's backward are a state for each of the sqrt(n) - 1 cuts
        and as many inside the segment, the loss and a gradient: 2 sqrt(n) bytes.
        """
        problem = reduce(uniform_chain(length))
        for steps in square_root(problem, ANY):
            assert len(steps) - 2 * length == (root - 1) ** 2
            assert peak(problem, steps) == 2 * root

    def test_uniform_segments_of_all_counts(self):
        """Two segments of four ops rerun three, eight segments of one op none."""
        problem = reduce(uniform_chain(8))
        again = {len(steps) - 16 for steps in uniform(problem, ANY)}

        assert max(again) == 3
        assert min(again) == 0


class TestChenGreedy:
    def test_a_segment_ends_when_it_is_over(self):
        """Of one byte an op, more than two are three."""
        problem = reduce(uniform_chain(9))

        assert greedy_cuts(problem, anywhere(problem), 2) == [3, 6]
        assert greedy_cuts(problem, anywhere(problem), 9) == []
        assert greedy_cuts(problem, anywhere(problem), 0) == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_a_segment_ends_at_a_candidate_only(self):
        """Where only 4 and 5 can be cut, the bytes go on to be counted until there."""
        problem = reduce(uniform_chain(9))

        assert greedy_cuts(problem, [4, 5], 2) == [4]

    def test_reaches_the_square_root_without_being_told(self):
        """On 100 ops its lowest peak is about the square-root rule's."""
        problem = reduce(uniform_chain(100))
        (by_rule, *_) = square_root(problem, ANY)
        lowest = min(int(peak(problem, steps)) for steps in chen_greedy(problem, ANY))

        assert lowest <= 1.2 * peak(problem, by_rule)


def with_side_op() -> CostGraph:
    """Return f0 f1 f2 side b2 b1 b0: `side` reads a1, only b1 reads what it makes."""
    graph = uniform_chain(3)
    a1 = graph.ops[0].outputs[0]
    made = Value(len(graph.values), 1, Kind.ACTIVATION)
    side = Op(3, "side", "aten.pow.default", Phase.FORWARD, (a1,), (made.id,), 1)
    backward = [replace(op, id=op.id + 1) for op in graph.ops[3:]]
    backward[1] = replace(backward[1], inputs=(*backward[1].inputs, made.id))
    return replace(
        graph, values=(*graph.values, made), ops=(*graph.ops[:3], side, *backward)
    )


class TestSideOps:
    def test_run_right_after_what_they_read(self):
        """`side` moves to just after f0; all else stays."""
        order = side_ops_early(reduce(with_side_op()))

        assert order.tolist() == [0, 3, 1, 2, 4, 5, 6]

    def test_a_forward_without_them_keeps_its_order(self):
        """On a chain every op leads to the loss."""
        order = side_ops_early(reduce(uniform_chain(5)))

        assert order.tolist() == list(range(10))

    def test_the_order_given_back_has_the_same_peak(self):
        """Running in the new order is what the reordered problem runs in its own."""
        problem = reduce(with_side_op())
        order = side_ops_early(problem)
        moved = reordered(problem, order)

        assert peak(problem, order) == peak(moved, np.arange(7))
        assert moved.producers.max() == 6

    def test_methods_try_both_orders(self):
        """A method's schedules come for the given order, then for the other."""

        def unplanned(problem: Problem, _limits: Limits) -> list[np.ndarray]:
            return [np.arange(problem.num_ops)]

        both = in_both_orders(unplanned)
        given, early = both(reduce(with_side_op()), ANY)
        (only,) = both(reduce(uniform_chain(2)), ANY)

        assert given.tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert early.tolist() == [0, 3, 1, 2, 4, 5, 6]
        assert only.tolist() == [0, 1, 2, 3]


class TestChain:
    def test_backward_ops_belong_to_the_state_they_read(self):
        """b2 reads a2, which crosses into segment 2, and b1 a1; b0 goes with b1."""
        chain = chain_of(reduce(uniform_chain(3)))

        assert chain.forward == ((0,), (1,), (2,))
        assert chain.backward == ((), (4, 5), (3,))

    def test_no_cut_where_the_backward_reads_nothing(self):
        """Where b1 reads the result a2 of f1, not its input a1, none would hold a1."""
        graph = uniform_chain(4)
        a2 = graph.ops[1].outputs[0]
        gradient = graph.ops[5].outputs[0]
        chain = chain_of(reduce(with_op(graph, 6, inputs=(gradient, a2))))

        assert chain.forward == ((0, 1), (2,), (3,))
        assert chain.backward == ((), (5, 6, 7), (4,))

    def test_a_backward_op_that_reads_two_segments_has_one_of_them_kept(self):
        """b0 also reads a2, which no run of segment 0 makes: it is kept whole."""
        graph = uniform_chain(8)
        a3 = graph.ops[2].outputs[0]
        last = len(graph.ops) - 1
        inputs = graph.ops[last].inputs
        problem = reduce(with_op(graph, last, inputs=(*inputs, a3)))
        chain = chain_of(problem)
        kept = np.flatnonzero(chain.kept & ~kept_whole(problem))

        assert of_the_forward(problem, kept) == [2]
        assert chain.again(2) == []

    def test_longer_chains_are_cut_into_128_segments(self):
        """Of 300 articulations 127 are chosen."""
        assert len(chain_of(reduce(uniform_chain(300)))) == 128
