"""Operations: how they stand, their events as they come, their end."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

from encamp.api.access import Caller, Reader, Writer
from encamp.api.bodies import StrictRoute
from encamp.api.operations import State
from encamp.api.replies import operation_document, operation_response
from encamp.api.routes.described import problems
from encamp.api.schemas import OperationDocument, OperationPage
from encamp.api.service import Here, Service
from encamp.api.store import Operation
from encamp.errors import NotFoundError, OptionError

router = APIRouter(route_class=StrictRoute, tags=["operations"])

Name = Annotated[str, Path(pattern=r"^op_[0-9a-f]{28}$")]
_PATH = "/v1/operations/{operation}"
_KEEP_ALIVE_S = 15.0
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `state` and `progress`, to the end of the operation.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get(
    "/v1/operations",
    operation_id="listOperations",
    response_model=OperationPage,
    responses=problems(422),
)
def list_operations(
    here: Here,
    caller: Reader,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: Annotated[str | None, Query(max_length=100)] = None,
    state: Annotated[State | None, Query()] = None,
) -> JSONResponse:
    """List operations, newest first."""
    before = None if page_token is None else _from_token(page_token)
    found = here.store.queue.page(caller.tenant, page_size + 1, before, state)
    more = len(found) > page_size
    page = {
        "operations": [operation_document(one) for one in found[:page_size]],
        "next_page_token": _to_token(found[page_size - 1].id) if more else None,
    }
    return JSONResponse(page)


@router.get(
    _PATH,
    operation_id="getOperation",
    response_model=OperationDocument,
    responses=problems(404, 422),
)
async def get_operation(
    operation: Name,
    here: Here,
    caller: Reader,
    wait: Annotated[float, Query(ge=0, le=86_400, description="Seconds.")] = 0,
) -> JSONResponse:
    """Return an operation, once it has ended or so many seconds have gone by."""
    found = await run_in_threadpool(_find, here, caller, operation)
    if wait and not found.state.ended:
        seconds = min(wait, here.settings.caps.wait_s)
        await here.watch.until_ended(operation, seconds)
        found = await run_in_threadpool(_find, here, caller, operation)
    return operation_response(found)


@router.post(
    _PATH + "/cancel",
    operation_id="cancelOperation",
    response_model=OperationDocument,
    responses=problems(404, 422),
)
def cancel_operation(operation: Name, here: Here, caller: Writer) -> JSONResponse:
    """Ask for the end of an operation, which keeps the best plan it has found.

    It is cancelled for everybody who waits for it. One that has ended stays so.
    """
    found = here.store.queue.cancel(caller.tenant, operation)
    if found is None:
        raise _missing(operation)
    here.replica.wake()
    here.watch.poke()
    return operation_response(found)


@router.delete(
    _PATH,
    operation_id="deleteOperation",
    status_code=204,
    responses=problems(404, 409, 422),
)
def delete_operation(operation: Name, here: Here, caller: Writer) -> Response:
    """Forget an operation that has ended; what it found stays."""
    if not here.store.queue.remove(caller.tenant, operation):
        raise _missing(operation)
    return Response(status_code=204)


@router.get(
    _PATH + "/events",
    operation_id="watchOperation",
    response_class=Response,
    responses=_EVENTS | problems(404, 422),
)
async def watch_operation(
    operation: Name,
    here: Here,
    caller: Reader,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """Stream what happens to an operation, from the start or after an event."""
    number = _number(last_event_id)
    await run_in_threadpool(_find, here, caller, operation)
    return StreamingResponse(
        _events(here, operation, number),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(here: Service, name: str, number: int) -> AsyncIterator[bytes]:
    while True:
        found = await run_in_threadpool(here.store.queue.events, name, number)
        for event in found:
            number = event.number
            text = json.dumps({**event.data, "at_ms": event.at_ms})
            yield format_sse_event(
                data_str=text, event=event.kind, id=str(event.number)
            )
        if found and _is_end(found[-1].data):
            return
        if not found:
            marks = await run_in_threadpool(here.store.queue.marks, [name])
            if name not in marks or marks[name][0].ended:
                return
            yield format_sse_event(data_str=None, comment="still there")
        await here.watch.until_news(name, number, _KEEP_ALIVE_S)


def _is_end(data: Any) -> bool:  # noqa: ANN401 - a JSON document
    state = data.get("state")
    return state is not None and State(state).ended


def _find(here: Service, caller: Caller, name: str) -> Operation:
    found = here.store.queue.get(caller.tenant, name)
    if found is None:
        raise _missing(name)
    return found


def _missing(name: str) -> NotFoundError:
    return NotFoundError(f"no operation {name} is here")


def _number(last: str | None) -> int:
    if last is None or not last:
        return 0
    if not (last.isascii() and last.isdecimal()):
        msg = f"Last-Event-ID is {last!r}; send the id of an event of this stream"
        raise OptionError(msg)
    return min(int(last), 2**31 - 1)


def _to_token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _from_token(token: str) -> str:
    try:
        name = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        name = ""
    if not name.startswith("op_"):
        msg = "the page_token is none of this service; take it from the page before"
        raise OptionError(msg)
    return name
