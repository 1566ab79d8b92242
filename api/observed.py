"""What goes around every request: its id, its trace, its log line, its host, its count.

A plain ASGI layer, so that streams pass through it as they are.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from .problems import plain
from .replies import bug_response, problem_response
from .service import Service

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class Observed:
    """Wraps the app; `service` may not be there before it has started."""

    app: ASGIApp
    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        seen = _Seen(scope, _request_id(headers), time.monotonic())
        scope.setdefault("state", {})["request_id"] = seen.request_id

        async def sent(message: Message) -> None:
            seen.note(message)
            await send(message)

        trace = _TRACE.fullmatch(headers.get("traceparent", ""))
        bound = {"request_id": seen.request_id}
        if trace:
            bound["trace_id"] = trace[1]
        with bound_contextvars(**bound):
            try:
                await self._answer(scope, receive, sent, headers)
            except Exception:
                self.service.log.exception("a request failed")
                if seen.answered:
                    raise
                await bug_response(scope)(scope, receive, sent)
            finally:
                self._note(seen)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers
    ) -> None:
        if not self._is_allowed(headers.get("host", "")):
            detail = "the service does not answer to this host; see --allowed-host"
            response = problem_response(plain(421, detail), scope)
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        allowed = self.service.settings.allowed_hosts
        return "*" in allowed or _name_of(host) in allowed

    def _note(self, seen: _Seen) -> None:
        seconds, measures = time.monotonic() - seen.began, self.service.measures
        route = getattr(seen.scope.get("route"), "path", "none")
        method = seen.scope["method"]
        if method not in _METHODS:
            method = "other"
        measures.requests.labels(method, route, seen.status).inc()
        measures.seconds.labels(method, route).observe(seconds)
        if seen.scope["path"] not in _QUIET:
            self.service.log.info(
                "request",
                method=method,
                path=seen.scope["path"][:200],
                status=seen.status,
                milliseconds=round(seconds * 1000, 2),
                key=seen.scope["state"].get("key"),
            )


_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"})


@dataclass(slots=True)
class _Seen:
    """What is noted of one request."""

    scope: Scope
    request_id: str
    began: float
    status: int = 500
    answered: bool = False

    def note(self, message: Message) -> None:
        """Note the status, and add the headers that each response has."""
        if message["type"] == "http.response.start":
            self.status, self.answered = message["status"], True
            headers: Any = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            for name, text in _HEADERS.items():
                headers[name] = text


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)


def _name_of(host: str) -> str:
    """Return a Host header without its port: of "[::1]:80" it is "::1"."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
