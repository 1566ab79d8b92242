"""The life of an operation: a pure state machine, without a clock or a store.

```
            claim              succeed
  queued ────────> running ──────────────> succeeded
    │  ^             │ │ │      fail
    │  └─────────────┘ │ └───────────────> failed
    │      release     │ cancel
    │ cancel           v
    │             cancelling ───┐ succeed, fail, release
    v                           v
  cancelled <───────────────────┘
```

An operation that was told to stop ends cancelled whatever its solve still says, and
keeps the plan it had found. One whose worker is lost goes back into the queue until
it has been tried too often, and then fails. What has ended does not change any more.
"""

from __future__ import annotations

from enum import StrEnum

from encamp.errors import InternalError

MAX_ATTEMPTS = 3
"""How often an operation is started before a lost worker fails it."""


class State(StrEnum):
    """Where an operation stands."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Return whether nothing can change it any more."""
        return self in _ENDED

    @property
    def held(self) -> bool:
        """Return whether a replica works on it, and holds its lease."""
        return self in (State.RUNNING, State.CANCELLING)


class Happening(StrEnum):
    """What can happen to an operation."""

    CLAIM = "claim"
    """A replica takes it from the queue."""
    CANCEL = "cancel"
    """Somebody asks for its end."""
    SUCCEED = "succeed"
    """Its solve ended with an answer, be it that nothing fits."""
    FAIL = "fail"
    """Its solve ended without one."""
    RELEASE = "release"
    """Its replica hands it back, or is dead."""
    GIVE_UP = "give-up"
    """The same, once too often."""


_ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
_NEXT = {
    (State.QUEUED, Happening.CLAIM): State.RUNNING,
    (State.QUEUED, Happening.CANCEL): State.CANCELLED,
    (State.RUNNING, Happening.CANCEL): State.CANCELLING,
    (State.RUNNING, Happening.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Happening.FAIL): State.FAILED,
    (State.RUNNING, Happening.RELEASE): State.QUEUED,
    (State.RUNNING, Happening.GIVE_UP): State.FAILED,
    (State.CANCELLING, Happening.CANCEL): State.CANCELLING,
    (State.CANCELLING, Happening.SUCCEED): State.CANCELLED,
    (State.CANCELLING, Happening.FAIL): State.CANCELLED,
    (State.CANCELLING, Happening.RELEASE): State.CANCELLED,
    (State.CANCELLING, Happening.GIVE_UP): State.CANCELLED,
}


def can(state: State, happening: Happening) -> bool:
    """Return whether something can happen to an operation in a state."""
    return (state, happening) in _NEXT


def after(state: State, happening: Happening) -> State:
    """Return the state after something that can happen.

    Raises:
        InternalError: it cannot: a caller did not ask first.

    """
    if not can(state, happening):
        msg = f"{happening} happened to an operation that is {state}; please report"
        raise InternalError(msg)
    return _NEXT[state, happening]


def loss(attempts: int) -> Happening:
    """Return what the loss of a worker is after so many starts."""
    return Happening.RELEASE if attempts < MAX_ATTEMPTS else Happening.GIVE_UP
