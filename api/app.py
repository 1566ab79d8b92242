"""The service as an ASGI app: its parts put together, started and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TextIO

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import encamp
from encamp.errors import EncampError

from .access import Gate
from .logs import new_logger
from .measures import Measures
from .observed import Observed
from .pool import LocalPool, Pool
from .replica import Replica
from .replies import (
    on_error,
    on_http_error,
    on_invalid,
    on_store_failure,
)
from .routes import ROUTERS
from .service import Service
from .settings import Settings
from .store import Store
from .watching import Watch

_ABOUT = """Plans activation checkpoints: graph and byte budget in, proven plan out.

Graphs and plans are named by the SHA-256 of their documents. What takes long is an
operation; `Prefer: wait=N` waits for it. Errors are problem documents (RFC 9457).
"""
_EXPOSED = ["Location", "Retry-After", "ETag", "X-Request-ID", "Preference-Applied"]


def make_app(
    store: Store,
    settings: Settings,
    *,
    pool: Pool | None = None,
    log_to: TextIO | None = None,
) -> FastAPI:
    """Return the app of a replica over a store; it owns the store from then on.

    Its workers run while the app does. `pool` defaults to processes of this machine.
    """
    service = _service(store, settings, pool or LocalPool(), log_to)
    app = FastAPI(
        title="Encamp",
        version=encamp.__version__,
        description=_ABOUT,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(EncampError, on_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(OperationalError, on_store_failure)
    app.add_exception_handler(PoolTimeout, on_store_failure)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "HEAD", "PUT", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Prefer", "Last-Event-ID"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(Observed, service=service)
    app.openapi()  # builds the routes, which the first requests would else
    return app


def _service(
    store: Store, settings: Settings, pool: Pool, log_to: TextIO | None
) -> Service:
    log, measures = new_logger(log_to), Measures()
    watch = Watch(store.queue, settings.poll_s)
    measures.watch(store.queue)
    replica = Replica(
        store,
        pool,
        log,
        lease_s=settings.lease_s,
        poll_s=settings.poll_s,
        changed=watch.poke,
        ended=measures.note_end,
    )
    gate = Gate(store.keys, settings.authenticate)
    return Service(settings, store, replica, watch, measures, gate, log)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.replica.start()
    watching = asyncio.create_task(service.watch.run())
    try:
        yield
    finally:
        await run_in_threadpool(service.replica.stop, service.settings.shutdown_s)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        service.store.close()
