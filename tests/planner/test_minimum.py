"""The bounds on the smallest budget alone, on the chain of `graphs`."""

import pytest

from encamp.graph import CostGraph, Kind, Op, Phase, Value
from encamp.planner.bounds import Cuts
from encamp.planner.clock import Clock
from encamp.planner.closure import closure_bound
from encamp.planner.last_run import last_run_bound
from encamp.planner.minimum import Floor, floor_of, squeeze
from encamp.planner.options import Options
from encamp.planner.progress import Progress
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import peak
from graphs import chain
from oracle import least_peak
from small_steps import small_step


def under_way(*, seconds=None) -> Progress:
    """Return a solve of the chain that has just begun, under no budget."""
    return Progress(reduce(chain()), 2**62, Options(), Clock(seconds))


class TestLastRun:
    def test_of_the_largest_op_is_its_working_set(self):
        """When op 3 runs last: t, b and gb (41), the loss that stands and x: 43."""
        assert last_run_bound(reduce(chain()), 0, Clock()) == (43, 3)

    def test_reports_only_what_is_better(self):
        """Nothing is proved above the 43 bytes that suffice."""
        assert last_run_bound(reduce(chain()), 43, Clock()) is None

    def test_ends_when_told(self):
        """Told to stop before the first set, it claims nothing."""
        assert last_run_bound(reduce(chain()), 0, Clock(0.0)) is None


def two_branches() -> CostGraph:
    """Return two large values, a small one made of each, and a sum of the small ones.

    ```
     op 0 ─> P (100) ─> op 1 ─> u (10) ──┐
     op 2 ─> Q (100) ─> op 3 ─> v (10) ──┴─> op 4 ─> sum (1, output)
    ```
    """
    sizes, reads = (100, 10, 100, 10, 1), ((), (0,), (), (2,), (1, 3))
    values = tuple(Value(i, size, Kind.ACTIVATION) for i, size in enumerate(sizes))
    ops = tuple(
        Op(i, f"op{i}", "test.op", Phase.FORWARD, read, (i,), 10)
        for i, read in enumerate(reads)
    )
    return CostGraph("branches", values, ops, (4,))


class TestClosure:
    def test_sees_that_one_of_two_is_made_beside_the_other(self):
        """Whichever of u and v is made last: 100 + 10 beside the other's 10."""
        graph = two_branches()

        assert closure_bound(reduce(graph), 0, Clock()) == (120, 4)
        assert least_peak(graph) == 120

    def test_proves_more_than_the_cuts_do(self):
        """At op 3 the cut makes u again later, and forgets what that takes."""
        cuts = Cuts(reduce(two_branches()))

        assert max(cuts.at(op).least_bytes()[0] for op in range(5)) == 110

    def test_reports_only_what_is_better(self):
        """Nothing is proved above the 120 bytes that suffice."""
        assert closure_bound(reduce(two_branches()), 120, Clock()) is None

    @pytest.mark.parametrize("seed", range(150))
    def test_never_exceeds_the_smallest_peak(self, seed):
        """No schedule of a small step has a lower peak than is proved."""
        graph = small_step(seed)
        found = closure_bound(reduce(graph), 0, Clock())

        assert found is None or found[0] <= least_peak(graph)

    def test_ends_when_told(self):
        """Told to stop before the first budget, it claims nothing."""
        assert closure_bound(reduce(chain()), 0, Clock(0.0)) is None


class TestFloor:
    def test_is_the_best_of_all_bounds(self):
        """The cut at op 3 holds 43 bytes, the outputs 7 with x."""
        progress = under_way()

        assert floor_of(Cuts(progress.problem), progress) == Floor(43, 3, "least-cut")

    def test_is_what_the_outputs_hold_without_time(self):
        """Loss (1), gw (5) and x (1) are held at the end, by op 5."""
        progress = under_way(seconds=0.0)

        assert floor_of(Cuts(progress.problem), progress) == Floor(7, 5, "outputs")


class TestSqueeze:
    def test_reaches_the_floor_of_the_chain(self):
        """43 bytes can be reached, by running op 0 again."""
        progress = under_way()
        steps = squeeze(Cuts(progress.problem), progress, Floor(43, 3, "least-cut"))

        assert peak(progress.problem, steps) == 43

    def test_returns_the_unplanned_schedule_without_time(self):
        """Over its limit it has only the schedule it began with."""
        progress = under_way(seconds=0.0)
        steps = squeeze(Cuts(progress.problem), progress, Floor(43, 3, "least-cut"))

        assert steps.tolist() == [*range(6)]
