"""`encamp keys`: who may use a planning service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from encamp.errors import OptionError

from .options import Json
from .output import note, print_json, print_lines, table
from .stores import Data, Database, opened

if TYPE_CHECKING:  # loading it loads the database's library
    from encamp.api.store import Key, Scope

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make, list and revoke the API keys of a planning service.",
)


@app.command("create")
def create(
    scope: Annotated[
        str,
        typer.Option("--scope", help="What it may do: plan:read, plan:write, or both."),
    ] = "plan:read,plan:write",
    name: Annotated[str, typer.Option("--name", help="Whose it is.")] = "",
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenants see nothing of each other.")
    ] = "default",
    data: Data = None,
    database: Database = None,
) -> None:
    """Make a key and print it: this once, for it is not kept."""
    with opened("encamp keys", data, database) as store:
        key, text = store.keys.create(name, _scopes(scope), tenant)
    note(f"key {key.id} of {key.tenant}: {', '.join(sorted(key.scopes))}")
    print_lines([text])


@app.command("list")
def list_keys(
    as_json: Json = False, data: Data = None, database: Database = None
) -> None:
    """List the keys: all there is of them but what to send."""
    with opened("encamp keys", data, database) as store:
        keys = store.keys.all()
    if as_json:
        print_json([_document(key) for key in keys])
        return
    head = ("id", "tenant", "scopes", "made", "revoked", "name")
    print_lines(table([head, *(_row(key) for key in keys)]))


@app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    data: Data = None,
    database: Database = None,
) -> None:
    """Make a key worthless: a running service takes it for a few seconds more."""
    with opened("encamp keys", data, database) as store:
        revoked = store.keys.revoke(key)
    note(f"revoked {revoked.id}")


def _scopes(text: str) -> set[Scope]:
    from encamp.api.store import Scope  # noqa: PLC0415 - as above

    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = words - set(Scope)
    if unknown:
        msg = f"no scope is called {min(unknown)!r}; use {', '.join(Scope)}"
        raise OptionError(msg)
    return set(map(Scope, words))


def _document(key: Key) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_ms": key.created_ms,
        "revoked_ms": key.revoked_ms,
    }


def _row(key: Key) -> tuple[str, ...]:
    revoked = "" if key.revoked_ms is None else _day(key.revoked_ms)
    scopes = ",".join(sorted(key.scopes))
    return key.id, key.tenant, scopes, _day(key.created_ms), revoked, key.name


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
