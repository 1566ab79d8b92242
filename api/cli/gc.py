"""`encamp gc`: what a planning service need not keep."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from encamp.errors import StoreError
from encamp.units import format_bytes

from .options import Json
from .output import count, print_json, print_lines
from .stores import Data, Database, opened

_SHOWN = 10


def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would go.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Read all that is kept, and check each plan, instead."
        ),
    ] = False,
    operations_days: Annotated[
        int, typer.Option(min=0, help="Keep operations that ended for so many days.")
    ] = 7,
    documents_days: Annotated[
        int, typer.Option(min=0, help="Keep what nobody reads for so many days.")
    ] = 90,
    as_json: Json = False,
    data: Data = None,
    database: Database = None,
) -> None:
    """Remove old operations, and graphs and plans that nobody has used for long.

    The service may run meanwhile. What a plan or an operation needs is kept with it.
    """
    with opened("encamp gc", data, database) as store:
        if check:
            _report(list(store.upkeep.faults()))
            return
        from encamp.api.store import Retention  # noqa: PLC0415 - loads the database's

        keep = Retention(operations_days, documents_days)
        removed = store.upkeep.collect(keep, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **asdict(removed)})
        return
    parts = (
        count(removed.operations, "operation"),
        count(removed.answers, "answer"),
        count(removed.plans, "plan"),
        count(removed.graphs, "graph"),
    )
    verb = "would remove" if dry_run else "removed"
    size = format_bytes(removed.blob_bytes)
    print_lines([f"{verb} {', '.join(parts)}: {size} of documents"])


def _report(faults: list[str]) -> None:
    """Print what is wrong in the store.

    Raises:
        StoreError: something is.

    """
    if not faults:
        print_lines(["the store is whole"])
        return
    print_lines(faults[:_SHOWN])
    msg = f"{count(len(faults), 'fault')} in the store"
    raise StoreError(msg)
