"""Errors as problem documents (RFC 9457): one type for each class of our tree.

A type is a path of the service that says what it means; for what HTTP has a word for
and Encamp has no class, it is "about:blank".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from encamp import errors
from encamp.errors import EncampError

MEDIA_TYPE = "application/problem+json"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

_STATUS: dict[type[EncampError], HTTPStatus] = {
    errors.StalePlanError: HTTPStatus.CONFLICT,
    errors.ServiceError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.UnauthorizedError: HTTPStatus.UNAUTHORIZED,
    errors.ForbiddenError: HTTPStatus.FORBIDDEN,
    errors.NotFoundError: HTTPStatus.NOT_FOUND,
    errors.ConflictError: HTTPStatus.CONFLICT,
    errors.TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.BusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.MissingExtraError: HTTPStatus.NOT_IMPLEMENTED,
    errors.InternalError: HTTPStatus.INTERNAL_SERVER_ERROR,
    EncampError: HTTPStatus.UNPROCESSABLE_ENTITY,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document; `faults` are (JSON path, what is wrong there)."""

    type: str
    title: str
    status: int
    detail: str
    faults: tuple[tuple[str, str], ...] = ()
    retry_after_s: int | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        found: dict[str, Any] = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.faults:
            found["errors"] = [
                {"path": path, "detail": detail} for path, detail in self.faults
            ]
        return found


def slug_of(kind: type[EncampError]) -> str:
    """Return the name of a class in a path.

    >>> slug_of(errors.InvalidPlanError)
    'invalid-plan-error'
    """
    return _WORD.sub("-", kind.__name__).lower()


def classes() -> Iterator[type[EncampError]]:
    """Return the classes of the tree, the root first."""
    waiting: list[type[EncampError]] = [EncampError]
    while waiting:
        kind = waiting.pop(0)
        # Those made at run time, for other libraries, are no names of ours.
        if kind.__module__ == errors.__name__:
            yield kind
        waiting += kind.__subclasses__()


def meaning(kind: type[EncampError]) -> str:
    """Return what a class stands for, as its own first line says."""
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".")


def status_of(kind: type[EncampError]) -> HTTPStatus:
    """Return the status of a class: its own, else that of the nearest above it."""
    return next(_STATUS[above] for above in kind.__mro__ if above in _STATUS)


def problem_of(error: EncampError) -> Problem:
    """Return the problem that an error is."""
    kind, detail, retry_after_s = type(error), str(error), None
    status = status_of(kind)
    if isinstance(error, errors.BusyError):
        retry_after_s = error.retry_after_s
        status = HTTPStatus.TOO_MANY_REQUESTS if error.own else status
    return Problem(
        type=f"/problems/{slug_of(kind)}",
        title=meaning(kind),
        status=int(status),
        detail=detail,
        faults=tuple(_faults(error)),
        retry_after_s=retry_after_s,
    )


def problem_named(name: str, detail: str) -> Problem:
    """Return the problem of an error that is known by the name of its class."""
    found = {kind.__name__: kind for kind in classes()}
    kind = found.get(name, errors.InternalError)
    return Problem(
        type=f"/problems/{slug_of(kind)}",
        title=meaning(kind),
        status=int(status_of(kind)),
        detail=detail,
    )


def plain(status: int, detail: str) -> Problem:
    """Return a problem that its HTTP status says all about."""
    return Problem("about:blank", HTTPStatus(status).phrase, status, detail)


def _faults(error: EncampError) -> Iterator[tuple[str, str]]:
    at = getattr(error, "at", "")
    if at:
        yield at if at.startswith("$") else f"$.{at}", str(error)
