import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.api.operations import MAX_ATTEMPTS, Happening, State, after, can, loss
from encamp.errors import InternalError

happenings = st.lists(st.sampled_from(Happening), max_size=12)


def walk(order: list[Happening]) -> list[State]:
    """Return the states passed when what cannot happen is passed over."""
    states = [State.QUEUED]
    for happening in order:
        if can(states[-1], happening):
            states.append(after(states[-1], happening))
    return states


@given(happenings)
def test_what_has_ended_stays_as_it_is(order):
    """No order of happenings leads out of an end."""
    states = walk(order)
    assert not any(state.ended for state in states[:-1])


@given(happenings)
def test_only_what_runs_succeeds_or_fails(order):
    """Never what waits or was cancelled."""
    for before, state in zip(walk(order), walk(order)[1:], strict=False):
        if state in (State.SUCCEEDED, State.FAILED):
            assert before is State.RUNNING


@given(happenings)
def test_once_cancelled_it_can_only_end_cancelled(order):
    """Whatever its solve still says."""
    states = walk(order)
    if State.CANCELLING in states:
        after_cancel = states[states.index(State.CANCELLING) :]
        assert set(after_cancel) <= {State.CANCELLING, State.CANCELLED}


@given(happenings)
def test_cancelling_at_any_moment_ends_it_in_two_happenings(order):
    """A cancel and a release."""
    state = walk(order)[-1]
    if not state.ended:
        state = after(state, Happening.CANCEL)
        if not state.ended:
            state = after(state, Happening.RELEASE)
        assert state is State.CANCELLED


@given(happenings)
def test_it_runs_before_a_worker_says_anything(order):
    """Only a claim or a cancel comes first."""
    states = walk(order)
    if len(states) > 1 and states[1] is not State.CANCELLED:
        assert states[1] is State.RUNNING


@pytest.mark.parametrize("state", [s for s in State if s.ended])
@pytest.mark.parametrize("happening", list(Happening))
def test_nothing_happens_to_what_has_ended(state, happening):
    """Neither is it possible nor does it pass."""
    assert not can(state, happening)
    with pytest.raises(InternalError, match=f"{happening} happened"):
        after(state, happening)


def test_a_lost_worker_is_replaced_until_it_was_lost_too_often():
    """The third loss fails it."""
    assert [loss(n) for n in range(1, MAX_ATTEMPTS + 1)] == [
        Happening.RELEASE,
        Happening.RELEASE,
        Happening.GIVE_UP,
    ]
    assert after(State.RUNNING, Happening.GIVE_UP) is State.FAILED


def test_every_state_is_reached():
    """From the queue, in as many steps as there are states."""
    reached = {State.QUEUED}
    for _ in State:
        reached |= {after(s, h) for s in tuple(reached) for h in Happening if can(s, h)}
    assert reached == set(State)
