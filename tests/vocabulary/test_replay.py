"""What a schedule means, on graphs whose peaks a reader can derive."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import InvalidPlanError
from encamp.replay import Instance, breakdown, replay
from graphs import (
    CHAIN_DURATION,
    CHAIN_PEAK,
    CHAIN_RECOMPUTED,
    CHAIN_RECOMPUTED_PEAK,
    NOISY_PEAK,
    chain,
    noisy,
    with_op,
    with_value,
)
from strategies import graphs, schedules


def test_the_default_schedule_is_every_op_once():
    """Without steps, the unplanned step is replayed."""
    assert replay(chain()) == replay(chain(), range(6))


def test_memory_of_the_chain_is_that_of_its_drawing():
    """Each step holds the resident bytes and what is live."""
    timeline = replay(chain())

    assert timeline.memory == (12, 32, 33, 53, 42, 17)
    assert (timeline.peak_bytes, timeline.peak_step) == (CHAIN_PEAK, 3)
    assert timeline.duration_ns == CHAIN_DURATION


def test_recomputing_trades_memory_for_time():
    """Making `a` again lets its first instance die early and costs its op's time."""
    timeline = replay(chain(), CHAIN_RECOMPUTED)

    assert timeline.memory == (12, 32, 23, 43, 32, 42, 17)
    assert timeline.peak_bytes == CHAIN_RECOMPUTED_PEAK
    assert timeline.duration_ns == CHAIN_DURATION + 100
    assert [i for i in timeline.instances if i.value == 1] == [
        Instance(1, born=0, dies=1),
        Instance(1, born=4, dies=5),
    ]


def test_workspace_counts_while_its_op_runs():
    """The kernel's own memory is held for its step alone."""
    timeline = replay(noisy())

    assert timeline.memory == (13, 37, 15)
    assert timeline.peak_bytes == NOISY_PEAK


def test_what_is_live_is_listed_by_birth():
    """At the peak of the chain, everything but the last gradients is live."""
    assert replay(chain()).live(3) == (1, 4, 2, 3, 5)


def test_a_value_nobody_uses_lives_for_one_step():
    """A dead output takes memory while its op runs and no longer."""
    graph = with_op(chain(), 4, inputs=(5,))

    assert Instance(1, born=0, dies=1) in replay(graph).instances
    graph = with_op(graph, 1, inputs=())
    assert Instance(1, born=0, dies=0) in replay(graph).instances


def test_a_given_value_lives_from_the_start_to_its_last_use():
    """A tangent is there before the first step; nobody's tangent goes after it."""
    assert Instance(4, born=0, dies=3) in replay(chain()).instances
    unread = with_op(chain(), 3, inputs=(2,))
    assert Instance(4, born=0, dies=0) in replay(unread).instances


def test_a_given_output_lives_to_the_end():
    """A value the step is given and hands back is never freed."""
    graph = replace(chain(), outputs=(4,))

    assert Instance(4, born=0, dies=5) in replay(graph).instances


def test_a_forward_output_is_the_instance_handed_over_at_the_boundary():
    """Making the loss again in the backward leaves the first one with the caller."""
    timeline = replay(chain(), (0, 1, 2, 3, 2, 4, 5))

    assert [i for i in timeline.instances if i.value == 3] == [
        Instance(3, born=2, dies=6),
        Instance(3, born=4, dies=4),
    ]


def test_a_forward_output_made_twice_in_the_forward_is_the_newer_one():
    """Of two instances before the backward, the caller gets the second."""
    timeline = replay(chain(), (0, 1, 2, 2, 3, 4, 5))

    assert [i for i in timeline.instances if i.value == 3] == [
        Instance(3, born=2, dies=2),
        Instance(3, born=3, dies=6),
    ]


def test_a_backward_output_is_the_last_instance():
    """Making a gradient again leaves the newer one with the caller."""
    timeline = replay(chain(), (0, 1, 2, 3, 4, 5, 5))

    assert [i for i in timeline.instances if i.value == 7] == [
        Instance(7, born=5, dies=5),
        Instance(7, born=6, dies=6),
    ]


def test_a_zero_byte_token_orders_and_costs_nothing():
    """A read of a token needs its maker, and its instance has no bytes."""
    with pytest.raises(InvalidPlanError, match=r"reads drop\[1\]"):
        replay(noisy(), (1, 0, 2))
    only_token = with_op(noisy(), 1, inputs=(3,))
    with pytest.raises(InvalidPlanError, match=r"reads drop\[2\]"):
        replay(only_token, (1, 0, 2))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), "a schedule of 'chain' without steps"),
        ((0, 6), "steps[1] is op 6; the graph has 6 ops"),
        ((0, -1), "steps[1] is op -1; the graph has 6 ops"),
        (
            (0, 2),
            "steps[1] (op 2, third) reads second, which no earlier step made",
        ),
    ],
)
def test_what_cannot_run_is_refused(steps, message):
    """A schedule that cannot run names the step, the op and what is missing."""
    with pytest.raises(InvalidPlanError) as caught:
        replay(chain(), steps)

    assert str(caught.value) == message


def test_the_breakdown_of_the_chain_is_that_of_its_drawing():
    """The peak of 53 bytes is one of input, one of tangent, and so on."""
    assert breakdown(chain(), replay(chain())) == {
        "input": 1,
        "activation": 31,
        "tangent": 1,
        "gradient": 20,
        "workspace": 0,
    }


@given(graphs().flatmap(lambda g: st.tuples(st.just(g), schedules(g))))
def test_the_breakdown_sums_to_the_peak(drawn):
    """Every byte of the peak belongs to one kind or to the workspace."""
    graph, steps = drawn
    timeline = replay(graph, steps)

    assert sum(breakdown(graph, timeline).values()) == timeline.peak_bytes


@given(graphs())
def test_a_larger_value_never_lowers_the_peak(graph):
    """Memory only grows with the bytes of a value."""
    for value in graph.values:
        larger = with_value(graph, value.id, bytes=value.bytes + 7)
        assert replay(larger).peak_bytes >= replay(graph).peak_bytes
