"""Any valid schedule of a step leaves what the unplanned step leaves, bit for bit."""

from functools import cache

import pytest

from cases import CASES
from encamp.replay import replay
from stepping import Stepper, differences, random_schedule, without_workspace

LARGE = {"S07", "S08", "S10", "S12", "S15"}
"""Cases of which one random schedule, less deep, takes long enough."""
DRAWN = [(case, s) for case in CASES for s in ((1,) if case in LARGE else (1, 2))]
STEPS = {"S01": 3, "S02": 3}
"""Cases whose buffers or random streams move run several steps in a row."""


@cache
def unplanned(case):
    """Return what a case does without a plan."""
    return Stepper(*CASES[case]()).outcomes(STEPS.get(case, 1))


@pytest.mark.parametrize(("case", "seed"), DRAWN)
def test_a_random_schedule_trains_the_same_and_peaks_as_replayed(case, seed):
    """Loss, gradients, buffers, random state and the peak are as they must be."""
    depth = 2 if case in LARGE else 4
    stepper = Stepper(*CASES[case](), lambda g: random_schedule(g, seed, depth))

    actual = stepper.outcomes(STEPS.get(case, 1))

    graph = without_workspace(stepper.lowered.graph)
    found = [differences(e, a) for e, a in zip(unplanned(case), actual, strict=True)]
    assert found == [[]] * len(actual)
    assert len(stepper.steps) > 1.1 * len(graph.ops)
    predicted = replay(graph, stepper.steps).peak_bytes - graph.resident_bytes
    assert stepper.peak() == predicted
