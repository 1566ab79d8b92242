"""What the client says and hears, apart from what carries it.

A conversation is a generator. It yields what is to be done (send this, wait, listen to
events) and is sent what came of it, so that the blocking and the async client differ
in nothing but how they do these three things.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import TypeVar

from encamp.errors import UnreachableError

from .problems import error_of

_RETRIED = (429, 503)
_LONGEST_PAUSE_S = 60.0
_LOST = (502, 504)
"""What a proxy answers when the service behind it does not."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Send:
    """A request to send; `wait_s` is for how long the service was asked to wait."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Listen:
    """A stream of events to pass on, from after the event of this id."""

    path: str
    after: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing came back, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A stream has ended, for whatever reason; `last` is the id of its last event."""

    last: str


Effect = Send | Pause | Listen
Outcome = Reply | Lost | Heard | None
Conversation = Generator[Effect, Outcome, _T]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to try again.

    Pauses double from `first_s`, each shortened by chance by up to a half so that many
    clients do not come back at once. Where the service says when, it is done then.
    """

    attempts: int = 5
    first_s: float = 0.5

    def pause(self, attempt: int, reply: Reply | Lost) -> float:
        """Return the seconds to wait after a failed attempt, counted from 0."""
        told = _retry_after(reply)
        if told is not None:
            return min(told, _LONGEST_PAUSE_S)
        chance = random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret
        return min(self.first_s * (1 << attempt) * chance, _LONGEST_PAUSE_S)


def exchange(request: Send, patience: Patience) -> Conversation[Reply]:
    """Send a request until it is answered; all of ours may be sent twice.

    Raises:
        UnreachableError: nothing came back, at every attempt.
        EncampError: what the service answered, where it refused.

    """
    for attempt in range(patience.attempts):
        reply = yield request
        assert isinstance(reply, Reply | Lost)  # noqa: S101 - what a Send leads to
        last = attempt + 1 == patience.attempts
        if isinstance(reply, Reply) and not (_is_passing(reply) and not last):
            return _accepted(reply)
        if not last:
            yield Pause(patience.pause(attempt, reply))
    assert isinstance(reply, Lost)  # noqa: S101 - a reply was returned or raised
    msg = (
        f"no answer to {request.method} {request.path}: {reply.reason}; tried"
        f" {patience.attempts} times"
    )
    raise UnreachableError(msg)


def _is_passing(reply: Reply) -> bool:
    return reply.status in _RETRIED or reply.status in _LOST


def _accepted(reply: Reply) -> Reply:
    if reply.status >= 300 and reply.status != 304:
        raise error_of(reply.status, reply.headers, reply.content)
    return reply


def _retry_after(reply: Reply | Lost) -> float | None:
    """Return the seconds that a service says to wait: as a number, or until a date."""
    if isinstance(reply, Lost):
        return None
    text = reply.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time(), 0.0)
    except ValueError:
        return None
