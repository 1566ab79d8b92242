"""Responses: problems, operations, results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope as AsgiScope

from encamp.errors import (
    BusyError,
    EncampError,
    InternalError,
    OptionError,
    StoreError,
)

from .bodies import RefusedBody
from .problems import MEDIA_TYPE, Problem, plain, problem_of
from .store import Operation

_RETRY_AFTER_S = "1"
_SHOWN = 20


def problem_response(problem: Problem, scope: AsgiScope) -> JSONResponse:
    """Return a problem as the response to a request."""
    document = problem.document()
    document["request_id"] = scope.get("state", {}).get("request_id")
    headers = {}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(document, problem.status, headers, media_type=MEDIA_TYPE)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """Answer with what Encamp raised on purpose."""
    assert isinstance(error, EncampError)  # noqa: S101 - it is registered for those
    if isinstance(error, InternalError | StoreError):
        request.app.state.service.log.error("internal error", exc_info=error)
    return problem_response(problem_of(error), request.scope)


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer with what HTTP has a word for, or with the error of a body."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    if isinstance(error, RefusedBody):
        return problem_response(problem_of(error.error), request.scope)
    response = problem_response(
        plain(error.status_code, str(error.detail)), request.scope
    )
    response.headers.update(error.headers or {})
    return response


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer with what a request lacks, or has too much of, by place."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    faults = [(_place(e["loc"]), str(e["msg"])) for e in error.errors()[:_SHOWN]]
    place, what = faults[0]
    first = problem_of(OptionError(f"{place}: {what}"))
    problem = Problem(
        first.type, first.title, first.status, first.detail, tuple(faults)
    )
    return problem_response(problem, request.scope)


async def on_store_failure(request: Request, error: Exception) -> JSONResponse:
    """Answer that the database does not, for now."""
    log = request.app.state.service.log
    log.warning("the store does not answer", error=str(error).partition("\n")[0])
    told = BusyError(
        "the service's store does not answer; try again", own=False, retry_after_s=5
    )
    return problem_response(problem_of(told), request.scope)


def bug_response(scope: AsgiScope) -> JSONResponse:
    """Return that something went wrong here, and nothing of what: the log has it."""
    told = InternalError(
        "the service failed at this request; its log says more under the request id"
    )
    return problem_response(problem_of(told), scope)


def operation_document(operation: Operation) -> dict[str, Any]:
    """Return an operation as the API shows it."""
    return {
        "id": operation.id,
        "kind": operation.kind,
        "state": operation.state,
        "done": operation.state.ended,
        "graph": operation.graph,
        "request": operation.request,
        "progress": operation.progress,
        "result": operation.result,
        "error": operation.error,
        "created_ms": operation.created_ms,
        "started_ms": operation.started_ms,
        "ended_ms": operation.ended_ms,
    }


def operation_response(
    operation: Operation, status: int = 200, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an operation; where it goes on, with when to ask again."""
    found = dict(headers or {})
    if not operation.state.ended:
        found["Retry-After"] = _RETRY_AFTER_S
    return JSONResponse(operation_document(operation), status, found)


def accepted(operation: Operation, headers: Mapping[str, str]) -> JSONResponse:
    """Return that an operation was asked for, and where it is."""
    where = {"Location": f"/v1/operations/{operation.id}"}
    return operation_response(operation, 202, {**headers, **where})


def _place(location: tuple[int | str, ...]) -> str:
    """Return where in a request something is: a JSON path for its body."""
    if not location or location[0] != "body":
        return " ".join(str(part) for part in location)
    parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in location[1:])
    return "$" + "".join(parts)
