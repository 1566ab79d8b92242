"""Plans by digest: as they are, over time, beside another, and checked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from encamp.api.access import Caller, Reader
from encamp.api.bodies import StrictRoute
from encamp.api.plan_diff import compare
from encamp.api.routes.described import problems
from encamp.api.routes.graphs import find_graph
from encamp.api.schemas import Checked, CheckRequest
from encamp.api.service import Here, Service
from encamp.api.timelines import snapshot, timeline_document, trace
from encamp.budget import budget_bytes
from encamp.check import check
from encamp.errors import NotFoundError
from encamp.graph import CostGraph
from encamp.wire import (
    graph_from_data,
    graph_from_json,
    plan_from_data,
    plan_from_json,
)

router = APIRouter(route_class=StrictRoute, tags=["plans"])

_PATTERN = r"^sha256:[0-9a-f]{64}$"
Digest = Annotated[str, Path(pattern=_PATTERN)]
_DOCUMENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}
Format = Literal["json", "perfetto", "memory_viz"]
_TIMELINES: dict[str, Any] = {
    "application/json": {"schema": {"type": "object"}},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}
_IMMUTABLE = "private, max-age=31536000, immutable"


@router.get(
    "/v1/plans/{digest}",
    operation_id="getPlan",
    response_class=Response,
    responses={
        **_DOCUMENT,
        304: {"description": "The client has it: a plan never changes."},
        **problems(404, 422),
    },
)
async def get_plan(
    digest: Digest,
    here: Here,
    caller: Reader,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a plan, which never changes."""
    content = here.shelf.get(caller.tenant, digest)
    if content is None:
        content = await run_in_threadpool(_plan_content, here, caller, digest)
        here.shelf.put(caller.tenant, digest, content)
    headers = {"ETag": f'"{digest}"', "Cache-Control": _IMMUTABLE}
    if _matches(if_none_match, digest):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


@router.get(
    "/v1/plans/{digest}/timeline",
    operation_id="getTimeline",
    response_class=Response,
    responses={200: {"content": _TIMELINES}, **problems(404, 422)},
)
def get_timeline(
    digest: Digest,
    here: Here,
    caller: Reader,
    format: Annotated[Format, Query()] = "json",  # noqa: A002 - as it is in the URL
) -> Response:
    """Return a plan step by step: when each op runs, and the memory it runs in.

    `perfetto` is for ui.perfetto.dev, `memory_viz` for pytorch.org/memory_viz.
    """
    plan = plan_from_json(_plan_content(here, caller, digest))
    graph = _graph_of(here, caller, digest)
    if format == "memory_viz":
        return Response(
            snapshot(graph, plan),
            media_type="application/octet-stream",
            headers={"Content-Disposition": 'attachment; filename="plan.pickle"'},
        )
    draw = trace if format == "perfetto" else timeline_document
    return JSONResponse(draw(graph, plan))


@router.get(
    "/v1/plans/{a}/diff/{b}",
    operation_id="comparePlans",
    response_class=JSONResponse,
    responses={**_DOCUMENT, **problems(404, 422)},
)
def compare_plans(a: Digest, b: Digest, here: Here, caller: Reader) -> JSONResponse:
    """Return how the second plan differs from the first.

    Figures of any two are compared; ops and modules of those of one structure.
    """
    before, after = (
        plan_from_json(_plan_content(here, caller, digest)) for digest in (a, b)
    )
    same = before.graph.structure == after.graph.structure
    graph = _graph_of(here, caller, b) if same else None
    return JSONResponse({"a": a, "b": b, **asdict(compare(before, after, graph))})


@router.post(
    "/v1/plans:check",
    operation_id="checkPlan",
    response_model=Checked,
    responses=problems(404, 413, 422),
)
def check_plan(asked: CheckRequest, here: Here, caller: Reader) -> JSONResponse:
    """Check a plan against a graph, by the rules alone and by none of its maker."""
    limits = here.settings.caps.reading
    if isinstance(asked.plan, str):
        plan = plan_from_json(_plan_content(here, caller, asked.plan))
    else:
        plan = plan_from_data(asked.plan, source="body", field="plan", limits=limits)
    graph = _read_graph(here, caller, asked.graph)
    budget = None if asked.budget is None else budget_bytes(graph, asked.budget)
    violations = [
        {"kind": broken.kind, "message": broken.message, "step": broken.step}
        for broken in check(graph, plan, budget)
    ]
    return JSONResponse({"valid": not violations, "violations": violations})


def _read_graph(
    here: Service, caller: Caller, given: str | dict[str, object]
) -> CostGraph:
    limits = here.settings.caps.reading
    if not isinstance(given, str):
        return graph_from_data(given, source="body", field="graph", limits=limits)
    find_graph(here, caller, given)
    content = here.store.documents.graph(caller.tenant, given)
    return graph_from_json(content or b"", source=given, limits=limits)


def _graph_of(here: Service, caller: Caller, digest: str) -> CostGraph:
    documents = here.store.documents
    name = documents.graph_of_plan(caller.tenant, digest)
    return _read_graph(here, caller, str(name))


def _plan_content(here: Service, caller: Caller, digest: str) -> bytes:
    content = here.store.documents.plan(caller.tenant, digest)
    if content is None:
        msg = f"no plan {digest} is here"
        raise NotFoundError(msg)
    return content


def _matches(header: str | None, digest: str) -> bool:
    """Return whether an If-None-Match names the plan, weakly or among others."""
    if header is None:
        return False
    tags = (tag.strip().removeprefix("W/") for tag in header.split(","))
    return any(tag in ("*", f'"{digest}"') for tag in tags)
