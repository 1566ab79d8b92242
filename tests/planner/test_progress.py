"""What a solve may claim of its best plan: proofs that cover the plan's own order."""

import numpy as np
import pytest

from encamp.plan import Order
from encamp.planner.clock import Clock
from encamp.planner.options import Options
from encamp.planner.progress import Progress
from encamp.planner.reduce import reduce
from forward_steps import branches

IN_ORDER, REORDERED = [0, 1, 0, 2, 1, 3, 4], [0, 2, 1, 3, 4]


@pytest.fixture
def progress():
    """Return a solve of the branches that knows one proof for each order."""
    begun = Progress(reduce(branches()), 12, Options(), Clock())
    begun.prove(Order.GIVEN, 12, "several moments")
    begun.prove(Order.FREE, 0, "one moment")
    return begun


def offer(progress, steps):
    """Offer a schedule."""
    return progress.offer(np.array(steps, dtype=np.int64))


def test_a_plan_in_the_given_order_takes_the_proof_of_that_order(progress):
    """12 ns more than every op once is the least in order, and what the plan takes."""
    assert offer(progress, IN_ORDER)
    assert progress.keeps_order
    assert progress.strongest[0] is Order.GIVEN
    assert progress.closed


def test_a_plan_in_its_own_order_does_not(progress):
    """It takes less than that proof says; what holds for every order is left."""
    offer(progress, IN_ORDER)

    assert offer(progress, REORDERED)
    assert not progress.keeps_order
    assert progress.strongest[0] is Order.FREE
    assert progress.added_ns == progress.strongest[1].added_ns == 0


def test_a_plan_that_is_taken_over_brings_its_order(progress):
    """From the solve of a smaller budget."""
    smaller = Progress(progress.problem, 12, Options(), Clock())
    offer(smaller, REORDERED)
    offer(progress, IN_ORDER)
    progress.take(smaller)

    assert progress.strongest[0] is Order.FREE


def test_an_event_tells_the_bound_that_covers_the_plan():
    """The lower bound that is reported falls back to that of every order."""
    told = []
    begun = Progress(reduce(branches()), 12, Options(), Clock(), told.append)
    begun.begin("test")
    begun.prove(Order.GIVEN, 12, "several moments")
    offer(begun, REORDERED)

    assert [event.lower_bound_ns for event in told[-2:]] == [27, 15]
