"""What both clients do alike to carry a conversation over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2

import encamp
from encamp.errors import OptionError
from encamp.planner.options import Event

from .answers import event_of
from .exchange import Listen, Lost, Reply, Send

Listener = Callable[[Event], None]
_CONNECT_S = 10.0
KEEP_ALIVE_S = 60.0
"""A stream of events without a sign of life for so long has ended."""


def settings(server: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    """Return what an HTTP client is made with.

    Raises:
        OptionError: `server` is no address of a service.

    """
    headers = {"user-agent": f"encamp/{encamp.__version__}"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {
        "base_url": _address(server),
        "headers": headers,
        "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
        # A key goes to the service it was given for and nowhere else.
        "follow_redirects": False,
    }


def timeout_of(request: Send, timeout_s: float) -> httpx2.Timeout:
    """Return the limits of a request, longer where the service was asked to wait."""
    connect = min(timeout_s, _CONNECT_S)
    return httpx2.Timeout(timeout_s + request.wait_s, connect=connect)


def listening(listen: Listen) -> dict[str, str]:
    """Return the headers of a request for a stream."""
    return {"last-event-id": listen.after} if listen.after else {}


def reply_of(response: httpx2.Response) -> Reply:
    """Return a response that was read."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


def lost(error: httpx2.HTTPError) -> Lost:
    """Return why nothing came back."""
    return Lost(str(error) or type(error).__name__)


def tell(event: httpx2.ServerSentEvent, listener: Listener | None) -> None:
    """Pass on the progress in an event of a stream."""
    if listener is None or event.event != "progress":
        return
    try:
        found = event_of(json.loads(event.data))
    except (ValueError, RecursionError):
        return
    if found is not None:
        listener(found)


def _address(server: str) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"{server!r} is no address of a service: write http(s)://HOST[:PORT]"
        raise OptionError(msg)
    if parts.username is not None or parts.query or parts.fragment:
        # Not shown: it may be a secret.
        msg = (
            "an address of a service is http(s)://HOST[:PORT][/PATH] and nothing else;"
            " a key goes into a file (--key-file) or $ENCAMP_KEY"
        )
        raise OptionError(msg)
    return server.rstrip("/")
