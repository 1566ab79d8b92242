"""The two ends: keep everything, recompute everything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from encamp.planner.jit import IntArray
from encamp.planner.problem import Problem
from encamp.planner.start import from_held, unplanned

from .method import Limits


def keep_everything(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the unplanned step: every op once, every value until its last use."""
    yield unplanned(problem)


def recompute_everything(problem: Problem, _limits: Limits) -> Iterator[IntArray]:
    """Yield the schedule whose backward starts from what cannot be made again.

    Those are the values that the step is given, its outputs, and the values of ops
    that may run only once. All else is recomputed where it is first needed. This is
    one checkpoint around the whole model: the peak may be as high as without it.
    """
    yield from_held(problem, np.zeros(problem.num_values, dtype=np.bool_))
