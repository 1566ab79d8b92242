"""Who asks: the tenant, the key and its scopes, from the key a request came with."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from encamp.errors import ForbiddenError, UnauthorizedError

from .store import Key, Keys, Scope

_REMEMBERED_S = 5.0
"""So long a revoked key may go on being known by a process."""
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a request is answered."""

    tenant: str
    key: str
    scopes: frozenset[Scope]


ANYBODY = Caller("default", "anonymous", frozenset(Scope))
"""Where no key is asked for."""


@dataclass(slots=True)
class Gate:
    """Knows keys, and remembers for a few seconds that it does."""

    keys: Keys
    authenticate: bool
    _known: OrderedDict[str, tuple[float, Key]] = field(default_factory=OrderedDict)

    async def admit(self, text: str | None) -> Caller:
        """Return who a key belongs to.

        Raises:
            UnauthorizedError: there is none, or it is worth nothing.

        """
        if not self.authenticate:
            return ANYBODY
        if not text:
            msg = "this service takes an API key: Authorization: Bearer KEY"
            raise UnauthorizedError(msg)
        key = self._remembered(text)
        if key is None:
            key = await run_in_threadpool(self._found, text)
        return Caller(key.tenant, key.id, key.scopes)

    def _remembered(self, text: str) -> Key | None:
        found = self._known.get(_name(text))
        return None if found is None or found[0] < time.monotonic() else found[1]

    def _found(self, text: str) -> Key:
        key = self.keys.find(text)
        if key is None:
            msg = "the API key is not one of this service, or was revoked"
            raise UnauthorizedError(msg)
        self._known[_name(text)] = time.monotonic() + _REMEMBERED_S, key
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return key


def _name(text: str) -> str:
    """Return what a key is remembered by, which is not the key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_BEARER = HTTPBearer(
    auto_error=False, description="An API key of `encamp keys create`."
)


async def _caller(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Caller:
    gate: Gate = request.app.state.service.gate
    caller = await gate.admit(None if given is None else given.credentials)
    request.state.key = caller.key
    return caller


def _with(scope: Scope, caller: Caller) -> Caller:
    if scope not in caller.scopes:
        msg = f"the key lacks the scope {scope}; make one with --scope {scope}"
        raise ForbiddenError(msg)
    return caller


async def _reader(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
    return _with(Scope.READ, caller)


async def _writer(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
    return _with(Scope.WRITE, caller)


Reader = Annotated[Caller, Depends(_reader)]
Writer = Annotated[Caller, Depends(_writer)]
