"""The bounds on the smallest budget alone, on the chain of `graphs`."""

from encamp.planner.bounds import Cuts
from encamp.planner.clock import Clock
from encamp.planner.last_run import last_run_bound
from encamp.planner.minimum import Floor, floor_of, squeeze
from encamp.planner.options import Options
from encamp.planner.progress import Progress
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import peak
from graphs import chain


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
