"""`encamp serve`: the planning service."""

from __future__ import annotations

import math
import socket
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from encamp.errors import OptionError
from encamp.units import parse_bytes

from .output import note
from .stores import Data, Database, open_store, shown

if TYPE_CHECKING:  # loading them loads the service's libraries
    from encamp.api.pool import LocalPool
    from encamp.api.settings import Settings
    from encamp.api.store import Store

_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - looked for, to be refused
_LOCAL = ("localhost", "127.0.0.1", "::1")
_BACKLOG = 1024


def serve(
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; others need --auth.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")
    ] = 8470,
    auth: Annotated[
        bool, typer.Option("--auth", help="Answer to API keys only: see encamp keys.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A name it answers to beside its own; '*' for any.",
            show_default=False,
        ),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-origin",
            metavar="ORIGIN",
            help="A web page that may call it; none by default.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Solves at a time; default: the number of processors.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option("--memory", help="What one solve may take, e.g. 4GiB.")
    ] = "4GiB",
    max_time: Annotated[
        float, typer.Option("--max-time", min=1, help="Seconds one solve may take.")
    ] = 3600.0,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds to end what runs in.")
    ] = 5.0,
    data: Data = None,
    database: Database = None,
) -> None:
    """Plan for other machines: an HTTP API over a store of graphs and plans.

    Solves run in processes of their own. Ctrl-C or SIGTERM ends it: what runs has
    --grace seconds, and what has not ended by then waits for the next start, or is
    taken over by another replica of the same database. /docs describes the API.
    """
    require_safe(host, auth=auth)
    names = _names(host, allowed_host or [])
    store = open_store("encamp serve", data, database)
    from encamp.api.pool import LocalPool  # noqa: PLC0415 - as above
    from encamp.api.settings import Caps, Settings  # noqa: PLC0415

    settings = Settings(
        authenticate=auth,
        allowed_hosts=names,
        allowed_origins=tuple(allowed_origin or ()),
        caps=Caps(time_limit_s=max_time),
        shutdown_s=grace,
    )
    limits: dict[str, Any] = {"memory_bytes": parse_bytes(memory)}
    if workers is not None:
        limits["slots"] = workers
    pool = LocalPool(longest_s=max_time, **limits)
    listening = _listen(host, port)
    _tell(listening, data, database, auth=auth)
    _run(store, settings, pool, listening)


def require_safe(host: str, *, auth: bool) -> None:
    """Refuse to be open to other machines without authentication.

    Raises:
        OptionError: the host is not this machine's own, and no key is asked for.

    """
    if auth or host == "localhost":
        return
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        msg = (
            f"{host} can be reached from other machines: add --auth, and make keys with"
            " `encamp keys create`; or listen on 127.0.0.1"
        )
        raise OptionError(msg)


def _names(host: str, given: list[str]) -> tuple[str, ...]:
    if host in _ANYWHERE and not given:
        msg = (
            f"{host} is no name that requests come with: say with --allowed-host by"
            " which the service is called, or '*'"
        )
        raise OptionError(msg)
    return tuple(dict.fromkeys([*_LOCAL, host, *(name.lower() for name in given)]))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror}; try --port 0"
        raise OptionError(msg) from None


def _tell(
    listening: socket.socket, data: Path | None, database: str | None, *, auth: bool
) -> None:
    host, port = listening.getsockname()[:2]
    shown_host = f"[{host}]" if ":" in host else host
    where = "" if data is None else f" --data {data}"
    keys = f"encamp keys create --scope plan:read,plan:write{where}"
    note(f"listening on http://{shown_host}:{port} (API: /docs)")
    note(f"data in {shown(data, database)}")
    note(f"make a key: {keys}" if auth else f"no key is asked for; with --auth: {keys}")


def _run(
    store: Store,
    settings: Settings,
    pool: LocalPool,
    listening: socket.socket,
) -> None:
    import uvicorn  # noqa: PLC0415 - as above

    from encamp.api.app import make_app  # noqa: PLC0415
    from encamp.api.logs import capture_standard_logging  # noqa: PLC0415
    from encamp.api.pool.warming import warm_up  # noqa: PLC0415

    capture_standard_logging()
    Thread(target=warm_up, args=(pool,), daemon=True).start()
    config = uvicorn.Config(
        make_app(store, settings, pool=pool),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_s),
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
