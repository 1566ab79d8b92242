"""Graphs by digest: is it here, put it here, give it back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from encamp.api.access import Caller, Reader, Writer
from encamp.api.bodies import StrictRoute
from encamp.api.routes.described import problems
from encamp.api.schemas import Stored
from encamp.api.service import Here, Service
from encamp.api.store import GraphEntry
from encamp.api.store.blobs import digest_of
from encamp.errors import NotFoundError, WireError
from encamp.wire import graph_from_json

router = APIRouter(route_class=StrictRoute, tags=["graphs"])

Hexadecimal = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_PATH = "/v1/graphs/sha256:{digest}"
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "An `encamp.graph/1`, of which the digest is the SHA-256:"
        " as JSON, or compressed by Zstandard (by content type or encoding).",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/zstd": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.put(
    _PATH,
    operation_id="putGraph",
    response_model=Stored,
    responses={201: {"model": Stored}, **problems(413, 422)},
    openapi_extra=_BODY,
)
async def put_graph(
    digest: Hexadecimal, request: Request, here: Here, caller: Writer
) -> JSONResponse:
    """Store a graph: 201, or 200 where it is here already."""
    content = await request.body()
    return await run_in_threadpool(_stored, here, caller, f"sha256:{digest}", content)


@router.get(
    _PATH,
    operation_id="getGraph",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **problems(404, 422),
    },
)
def get_graph(digest: Hexadecimal, here: Here, caller: Reader) -> Response:
    """Return a graph as it was stored."""
    name = f"sha256:{digest}"
    content = here.store.documents.graph(caller.tenant, name)
    if content is None:
        raise _missing(name)
    return Response(content, media_type="application/json", headers=_tag(name))


@router.head(
    _PATH,
    operation_id="hasGraph",
    response_class=Response,
    responses={200: {"description": "It is here."}, **problems(404, 422)},
)
def has_graph(digest: Hexadecimal, here: Here, caller: Reader) -> Response:
    """Say whether a graph is here, so that it need not be uploaded."""
    entry = find_graph(here, caller, f"sha256:{digest}")
    return Response(media_type="application/json", headers=_tag(entry.digest))


def find_graph(here: Service, caller: Caller, digest: str) -> GraphEntry:
    """Return what is known of a graph.

    Raises:
        NotFoundError: it is not here.

    """
    entry = here.store.documents.graph_entry(caller.tenant, digest)
    if entry is None:
        raise _missing(digest)
    return entry


def _stored(here: Service, caller: Caller, digest: str, content: bytes) -> JSONResponse:
    found = digest_of(content)
    if found != digest:
        msg = f"the body's digest is {found}, not {digest}; it was changed on its way"
        raise WireError(msg)
    entry = here.store.documents.graph_entry(caller.tenant, digest)
    status = 200
    if entry is None:
        graph = graph_from_json(
            content, source="body", limits=here.settings.caps.reading
        )
        here.store.documents.put_graph(caller.tenant, content, graph)
        entry, status = find_graph(here, caller, digest), 201
    return JSONResponse(_shown(entry), status, _tag(digest))


def _shown(entry: GraphEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Stored.model_fields}


def _tag(digest: str) -> dict[str, str]:
    return {
        "ETag": f'"{digest}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }


def _missing(digest: str) -> NotFoundError:
    return NotFoundError(f"no graph {digest} is here; PUT it first")
