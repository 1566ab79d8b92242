"""Conversations with the service: put a graph there, ask, wait, fetch the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import zstandard

from encamp.budget import budget_bytes
from encamp.check import Rule, Violation, check
from encamp.errors import NoPlanError, NotFoundError, ServiceError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import graph_to_json, plan_to_json

from .answers import (
    Operation,
    SweepAnswer,
    document_of,
    operation_of,
    plan_of,
    require_feasible,
    result_of,
)
from .exchange import Conversation, Heard, Listen, Patience, Send, exchange

_WAIT_S = 20
"""Seconds a request waits for an answer at the service before it is sent again."""
_WAIT_HEARD_S = 2
_PAGE = 200
_JSON = {"content-type": "application/json"}
Begun = Callable[[Operation], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How the service is to search; see `encamp.planner.Options`.

    Without a limit of either kind the service's own applies. `robust` is a share.
    """

    seed: int = 0
    time_limit_s: float | None = None
    work_limit: int | None = None
    keep: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    robust: float | None = None
    fixed_order: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One question: a graph, what beside its digest the request holds, and how.

    `listen` streams progress rather than waits; `begun` is called with the operation
    that a question becomes; `within_s` ends the wait, None for never.
    """

    kind: str
    graph: CostGraph
    fields: Mapping[str, Any] = field(default_factory=dict)
    search: Search = Search()
    listen: bool = False
    begun: Begun | None = None
    within_s: float | None = None


def upload(graph: CostGraph, patience: Patience) -> Conversation[str]:
    """Store a graph unless it is there, compressed, and return its digest."""
    content = graph_to_json(graph).encode("utf-8")
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    path = f"/v1/graphs/{digest}"
    try:
        yield from exchange(Send("HEAD", path), patience)
    except NotFoundError:
        packed = zstandard.ZstdCompressor().compress(content)
        headers = {"content-type": "application/zstd"}
        yield from exchange(Send("PUT", path, headers, packed), patience)
    return digest


def planned(ask: Ask, patience: Patience) -> Conversation[Plan]:
    """Return a plan that keeps the rules, and what was asked, on that very graph."""
    limits = {
        name: budget_bytes(ask.graph, ask.fields[name])
        for name in ("budget", "reserve")
        if name in ask.fields
    }
    result = yield from _answered(ask, patience)
    require_feasible(result)
    plan = yield from fetch_plan(_digest(result), patience)
    require_sound(ask.graph, plan)
    _require_asked(ask.graph, plan, limits)
    return plan


def swept(ask: Ask, patience: Patience) -> Conversation[SweepAnswer]:
    """Return the plans of a sweep."""
    result = yield from _answered(ask, patience)
    require_feasible(result)
    plans = []
    for point in result.get("points", []):
        plan = yield from fetch_plan(_digest(point), patience)
        require_sound(ask.graph, plan)
        plans.append(plan)
    return SweepAnswer(
        tuple(plans),
        int(result.get("bound_bytes", 0)),
        tuple(result.get("missed_bytes", ())),
        result.get("knee"),
    )


def fetch_plan(digest: str, patience: Patience) -> Conversation[Plan]:
    """Return the plan of a digest."""
    reply = yield from exchange(Send("GET", f"/v1/plans/{digest}"), patience)
    return plan_of(reply, digest)


def checked(
    graph: CostGraph, plan: Plan, budget: str | int | None, patience: Patience
) -> Conversation[tuple[Violation, ...]]:
    """Return what the service's own check says of a plan."""
    digest = yield from upload(graph, patience)
    asked = {"graph": digest, "plan": json.loads(plan_to_json(plan)), "budget": budget}
    reply = yield from exchange(
        Send("POST", "/v1/plans:check", _JSON, _json(asked)), patience
    )
    try:
        return tuple(
            Violation(Rule(found["kind"]), found["message"], found["step"])
            for found in document_of(reply)["violations"]
        )
    except (KeyError, TypeError, ValueError) as error:
        msg = f"the service's check cannot be read: {error!r}"
        raise ServiceError(msg) from None


def get(path: str, patience: Patience, *, wait_s: float = 0) -> Conversation[Any]:
    """Return the document at a path."""
    reply = yield from exchange(Send("GET", path, wait_s=wait_s), patience)
    return document_of(reply)


def looked_up(
    name: str, patience: Patience, *, wait_s: float = 0
) -> Conversation[Operation]:
    """Return an operation, once it has ended or so many seconds have gone by."""
    path = f"/v1/operations/{name}" + (f"?wait={wait_s:g}" if wait_s else "")
    return operation_of((yield from get(path, patience, wait_s=wait_s)))


def listed(state: str | None, patience: Patience) -> Conversation[list[Operation]]:
    """Return all operations, or those in a state, newest first, page after page."""
    found: list[Operation] = []
    token = ""
    while True:
        asked = {"page_size": _PAGE, "page_token": token, "state": state or ""}
        query = urlencode({name: item for name, item in asked.items() if item})
        page = yield from get(f"/v1/operations?{query}", patience)
        found += [operation_of(document) for document in page.get("operations", [])]
        token = page.get("next_page_token") or ""
        if not token:
            return found


def cancelled(name: str, patience: Patience) -> Conversation[Operation]:
    """Ask for the end of an operation, which keeps what it has found."""
    request = Send("POST", f"/v1/operations/{name}/cancel")
    return operation_of(document_of((yield from exchange(request, patience))))


def deleted(name: str, patience: Patience) -> Conversation[None]:
    """Forget an operation that has ended."""
    yield from exchange(Send("DELETE", f"/v1/operations/{name}"), patience)


def require_sound(graph: CostGraph, plan: Plan) -> None:
    """Refuse a plan that breaks a rule on the graph in hand, whoever made it.

    Raises:
        ServiceError: it does; what was sent back is not used.

    """
    broken = check(graph, plan)
    if broken:
        msg = (
            f"the plan that the service returned for {graph.name!r} breaks a rule:"
            f" {broken[0].message}; it is not used"
        )
        raise ServiceError(msg)


def _require_asked(graph: CostGraph, plan: Plan, limits: Mapping[str, int]) -> None:
    """Refuse a plan that was made for another budget or reserve."""
    for name, limit in limits.items():
        made_for = getattr(plan, f"{name}_bytes")
        if made_for != limit:
            msg = (
                f"the plan that the service returned for {graph.name!r} was made for a"
                f" {name} of {made_for} bytes, not {limit}; it is not used"
            )
            raise ServiceError(msg)


def _answered(ask: Ask, patience: Patience) -> Conversation[Mapping[str, Any]]:
    """Ask, and return the result once there is one."""
    began = monotonic()
    digest = yield from upload(ask.graph, patience)
    usual = asdict(Search())
    options = {k: v for k, v in asdict(ask.search).items() if v != usual[k]}
    body = {"graph": digest, "options": options, **ask.fields}
    wait_s = 0 if ask.listen else _within(ask, began, _WAIT_S)
    headers = _JSON | ({"prefer": f"wait={wait_s:.0f}"} if wait_s >= 1 else {})
    request = Send("POST", f"/v1/{ask.kind}", headers, _json(body), wait_s)
    reply = yield from exchange(request, patience)
    document = document_of(reply)
    if reply.status != 202:
        return document
    return result_of((yield from _ended(ask, operation_of(document), began, patience)))


def _ended(
    ask: Ask, operation: Operation, began: float, patience: Patience
) -> Conversation[Operation]:
    last = ""
    if ask.begun is not None:
        ask.begun(operation)
    while not operation.done:
        if ask.listen:
            heard = yield Listen(f"/v1/operations/{operation.id}/events", last)
            last = heard.last if isinstance(heard, Heard) else last
        wait_s = _within(ask, began, _WAIT_HEARD_S if ask.listen else _WAIT_S)
        if wait_s <= 0:
            msg = (
                f"the service found no plan of {ask.graph.name!r} in {ask.within_s:g}"
                f" s; its operation {operation.id} goes on"
            )
            raise NoPlanError(msg)
        operation = yield from looked_up(operation.id, patience, wait_s=wait_s)
    return operation


def _within(ask: Ask, began: float, seconds: float) -> float:
    if ask.within_s is None:
        return seconds
    return min(seconds, ask.within_s - (monotonic() - began))


def _digest(result: Mapping[str, Any]) -> str:
    digest = result.get("plan")
    if not isinstance(digest, str) or not digest.startswith("sha256:"):
        msg = f"the service answered without the digest of a plan: {digest!r}"
        raise ServiceError(msg)
    return digest


def _json(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8")
