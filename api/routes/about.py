"""What the service is, what it can do, and how it is."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

import encamp
from encamp.api.access import Reader
from encamp.api.problems import classes, meaning, slug_of, status_of
from encamp.api.routes.described import problems
from encamp.api.schemas import Health, ProblemType, SearchOptions, Version
from encamp.api.service import Here, Service
from encamp.devices import DEVICES
from encamp.errors import NotFoundError
from encamp.wire import GRAPH_SCHEMA, PLAN_SCHEMA

router = APIRouter(tags=["about"])

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", operation_id="health", response_model=Health)
async def health() -> JSONResponse:
    """Say that the process answers."""
    return JSONResponse({"status": "ok", "missing": []})


@router.get(
    "/readyz",
    operation_id="readiness",
    response_model=Health,
    responses={503: {"model": Health, "description": "It cannot take requests now."}},
)
async def readiness(here: Here) -> JSONResponse:
    """Say whether the store answers and operations are taken."""
    missing = await run_in_threadpool(_missing, here)
    status = "unavailable" if missing else "ok"
    document = {"status": status, "missing": missing}
    return JSONResponse(document, 503 if missing else 200)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(here: Here) -> Response:
    """Return counters in Prometheus's text format."""
    here.measures.running.set(here.replica.num_running)
    return Response(here.measures.text(), headers={"Content-Type": _PROMETHEUS})


@router.get("/version", operation_id="version", response_model=Version)
async def show_version() -> JSONResponse:
    """Return the versions of what runs here."""
    return JSONResponse(
        {
            "encamp": encamp.__version__,
            "ortools": version("ortools"),
            "python": platform.python_version(),
        }
    )


@router.get("/v1/devices", operation_id="listDevices", responses=problems())
async def list_devices(_caller: Reader) -> JSONResponse:
    """List the devices that costs can be computed for without having one."""
    devices = [{**asdict(one), "rates": dict(one.rates)} for one in DEVICES]
    return JSONResponse({"devices": devices})


@router.get("/v1/capabilities", operation_id="capabilities", responses=problems())
async def capabilities(here: Here, _caller: Reader) -> JSONResponse:
    """Return what may be asked, with which limits and defaults."""
    return JSONResponse(
        {
            "schemas": [GRAPH_SCHEMA, PLAN_SCHEMA],
            "kinds": ["plan", "sweep", "min-budget"],
            "timeline_formats": ["json", "perfetto", "memory_viz"],
            "solver": {"ortools": version("ortools")},
            "limits": asdict(here.settings.caps),
            "default_options": SearchOptions().model_dump(),
            "slots": here.replica.pool.slots,
        }
    )


@router.get(
    "/problems/{name}",
    operation_id="describeProblem",
    response_model=ProblemType,
    responses=problems(404),
)
async def describe_problem(name: str) -> JSONResponse:
    """Say what a type of problem means."""
    found = {slug_of(kind): kind for kind in classes()}
    if name not in found:
        msg = f"no problem is called {name[:60]!r}"
        raise NotFoundError(msg)
    kind = found[name]
    return JSONResponse(
        {
            "type": f"/problems/{name}",
            "title": meaning(kind),
            "status": int(status_of(kind)),
            "description": (kind.__doc__ or "").strip(),
        }
    )


def _missing(here: Service) -> list[str]:
    missing = [] if here.replica.alive else ["workers"]
    try:
        with here.store.database.reading() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        missing.append("store")
    return missing
