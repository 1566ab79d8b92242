"""Problem documents (RFC 9457) back into our exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from encamp import errors
from encamp.errors import EncampError

_PREFIX = "/problems/"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SHOWN = 300
_BY_STATUS: dict[int, type[errors.ServiceError]] = {
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    413: errors.TooLargeError,
}
_WITHOUT_BODY = {
    401: "it takes an API key that is valid (--key-file FILE, or $ENCAMP_KEY)",
    403: "the API key lacks the scope for it",
}
"""What to say of answers that have no body, as those to HEAD."""


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> EncampError:
    """Return the exception that a refusal of the service stands for.

    A type of problem that this version does not know, or that is a bug of the service,
    becomes a `ServiceError`.
    """
    problem = _problem(content)
    detail = str(problem.get("detail") or _plain(status, content))[:_SHOWN]
    return error_named(_kind(problem), status, detail, problem, headers)


def error_named(
    kind: type[EncampError] | None,
    status: int,
    detail: str,
    problem: Mapping[str, Any],
    headers: Mapping[str, str],
) -> EncampError:
    """Return an exception of a class, with what else the problem says."""
    if kind is errors.BusyError or status in (429, 503):
        seconds = headers.get("retry-after", "")
        retry_after_s = int(seconds[:9]) if seconds.isdecimal() else 1
        return errors.BusyError(detail, own=status == 429, retry_after_s=retry_after_s)
    if kind is None or kind is errors.InternalError:
        return _BY_STATUS.get(status, errors.ServiceError)(f"the service: {detail}")
    if issubclass(kind, errors.WireError | errors.GraphError):
        return kind(detail, at=_place(problem))
    return kind(detail)


def kind_named(slug: str) -> type[EncampError] | None:
    """Return the class whose name makes `slug`, None where there is none.

    >>> kind_named("stale-plan-error")
    <class 'encamp.errors.StalePlanError'>
    """
    found = {_WORD.sub("-", kind.__name__).lower(): kind for kind in _classes()}
    return found.get(slug)


def problem_type(problem: Mapping[str, Any]) -> str:
    """Return the last part of a problem's type."""
    return str(problem.get("type", "")).rpartition(_PREFIX)[2]


def _kind(problem: Mapping[str, Any]) -> type[EncampError] | None:
    kind = kind_named(problem_type(problem))
    # That nothing fits is a result with figures; it never comes as a problem.
    return None if kind is errors.InfeasibleError else kind


def _problem(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _place(problem: Mapping[str, Any]) -> str:
    faults = problem.get("errors")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        return str(faults[0].get("path", ""))
    return ""


def _plain(status: int, content: bytes) -> str:
    text = " ".join(content[:_SHOWN].decode("utf-8", "replace").split())
    text = text or _WITHOUT_BODY.get(status, "")
    return f"it answered {status}" + (f": {text}" if text else "")


def _classes() -> Iterator[type[EncampError]]:
    waiting: list[type[EncampError]] = [EncampError]
    while waiting:
        kind = waiting.pop()
        # Those made at run time, by the runtime for Dynamo, are no names of ours.
        if kind.__module__ == errors.__name__:
            yield kind
        waiting += kind.__subclasses__()
