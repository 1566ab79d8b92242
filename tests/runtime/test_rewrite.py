"""Any valid schedule of a step leaves what the unplanned step leaves, bit for bit."""

from functools import cache

import pytest
import torch
from torch import nn

from cases import CASES
from encamp.replay import replay
from stepping import Stepper, differences, random_schedule, without_workspace

SEEDS = {"S07": (1,), "S12": (1, 2)}
"""Random schedules of the larger cases are few, so that the tests stay fast."""
DRAWN = [(case, seed) for case in CASES for seed in SEEDS.get(case, (1, 2, 3))]
STEPS = {"S01": 3, "S02": 3}
"""Cases whose buffers or random streams move run several steps in a row."""


@cache
def unplanned(case):
    """Return what a case does without a plan."""
    return Stepper(*CASES[case]()).outcomes(STEPS.get(case, 1))


@pytest.mark.parametrize(("case", "seed"), DRAWN)
def test_a_random_schedule_trains_the_same_and_peaks_as_replayed(case, seed):
    """Loss, gradients, buffers, random state and the peak are as they must be."""
    stepper = Stepper(*CASES[case](), lambda graph: random_schedule(graph, seed))

    actual = stepper.outcomes(STEPS.get(case, 1))

    graph = without_workspace(stepper.lowered.graph)
    found = [differences(e, a) for e, a in zip(unplanned(case), actual, strict=True)]
    assert found == [[]] * len(actual)
    assert len(stepper.steps) > 1.2 * len(graph.ops)
    predicted = replay(graph, stepper.steps).peak_bytes - graph.resident_bytes
    assert stepper.peak() == predicted
