"""The service's documents as values: operations, results, plans."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from encamp.errors import (
    EncampError,
    InfeasibleError,
    NoPlanError,
    PeakSite,
    ServiceError,
    WireError,
)
from encamp.plan import Plan
from encamp.planner.options import Event
from encamp.wire import plan_from_json
from encamp.wire.document import parse

from .exchange import Reply
from .problems import error_named, kind_named, problem_type

_UNBOUNDED = 2**61


@dataclass(frozen=True, slots=True)
class Operation:
    """A long-running operation of the service.

    `state` is queued, running, cancelling, succeeded, failed or cancelled; `result` is
    the service's document, where there is one, also of what was cancelled.
    """

    id: str
    kind: str
    state: str
    done: bool
    graph: str
    progress: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    """The plans of a sweep, from the largest budget to the smallest.

    No plan fits less than `bound_bytes` (proven); none was found for the budgets
    `missed_bytes`. `knee` is the position of the plan from which on more memory buys
    little, where there is one.
    """

    plans: tuple[Plan, ...]
    bound_bytes: int
    missed_bytes: tuple[int, ...]
    knee: int | None


def document_of(reply: Reply) -> dict[str, Any]:
    """Return the JSON object in a reply.

    Raises:
        ServiceError: there is none.

    """
    try:
        return parse(reply.content, "the service's answer").mapping()
    except WireError as error:
        raise ServiceError(str(error)) from None


def operation_of(document: Mapping[str, Any]) -> Operation:
    """Return the operation that a document describes.

    Raises:
        ServiceError: it describes none.

    """
    try:
        return Operation(
            id=str(document["id"]),
            kind=str(document["kind"]),
            state=str(document["state"]),
            done=bool(document["done"]),
            graph=str(document["graph"]),
            progress=document.get("progress"),
            result=document.get("result"),
            error=document.get("error"),
        )
    except KeyError as missing:
        what = "an operation"
        raise _unreadable(what, missing) from None


def result_of(operation: Operation) -> Mapping[str, Any]:
    """Return the result of an operation that has ended.

    Raises:
        EncampError: what it failed with.
        NoPlanError: it was cancelled before it had any.

    """
    if operation.result is not None:
        return operation.result
    if operation.error is not None:
        raise _failure(operation.error)
    msg = f"the operation {operation.id} was cancelled before it had found a plan"
    raise NoPlanError(msg)


def require_feasible(result: Mapping[str, Any]) -> None:
    """Let a result pass unless it says that nothing fits.

    Raises:
        InfeasibleError: it does; with the service's own message and figures.

    """
    if result.get("status") != "infeasible":
        return
    try:
        site = result["peak"]
        raise InfeasibleError(
            str(result["message"]),
            budget_bytes=int(result["budget_bytes"]),
            bound_bytes=int(result["bound_bytes"]),
            smallest_bytes=result["smallest_bytes"],
            site=None if site is None else _site(site),
        )
    except (KeyError, TypeError, ValueError) as error:
        what = "an infeasible result"
        raise _unreadable(what, error) from None


def plan_of(reply: Reply, digest: str) -> Plan:
    """Return the plan in a reply, which must be that of a digest.

    Raises:
        ServiceError: it is another one, or none.

    """
    found = f"sha256:{hashlib.sha256(reply.content).hexdigest()}"
    if found != digest:
        msg = f"the service answered {found} where plan {digest} was asked for"
        raise ServiceError(msg)
    try:
        return plan_from_json(reply.content, source=digest)
    except WireError as error:
        raise ServiceError(str(error)) from None


def event_of(data: object) -> Event | None:
    """Return the progress of a solve that an event tells, None where it tells other."""
    if not isinstance(data, dict):
        return None
    try:
        budget = data["budget_bytes"]
        return Event(
            stage=str(data["stage"]),
            seconds=float(data["seconds"]),
            duration_ns=data["duration_ns"],
            lower_bound_ns=int(data["lower_bound_ns"]),
            unplanned_ns=int(data["unplanned_ns"]),
            budget_bytes=_UNBOUNDED if budget is None else int(budget),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _failure(error: Mapping[str, Any]) -> EncampError:
    detail = str(error.get("detail", "it failed without a reason"))
    kind = kind_named(problem_type(error))
    status = error.get("status")
    return error_named(
        kind, status if isinstance(status, int) else 0, detail, error, {}
    )


def _site(data: Mapping[str, Any]) -> PeakSite:
    return PeakSite(
        op=str(data["op"]),
        module=data["module"],
        source=data["source"],
        values=tuple(map(str, data["values"])),
        bytes=int(data["bytes"]),
    )


def _unreadable(what: str, error: Exception) -> ServiceError:
    return ServiceError(f"the service sent {what} that cannot be read: {error!r}")
