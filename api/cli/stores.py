"""The store that `encamp serve` and its keepers work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from encamp.errors import StoreError
from encamp.folders import data_folder

from .extras import require_service

if TYPE_CHECKING:  # loading it loads the database's library
    from encamp.api.store import Store

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Where the store is; default: the user's data folder, or"
        " $ENCAMP_DATA_DIR.",
        show_default=False,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="ENCAMP_DATABASE",
        help="A PostgreSQL store instead: postgresql://USER@HOST/NAME.",
        show_default=False,
        show_envvar=True,
    ),
]


def open_store(what: str, data: Path | None, database: str | None) -> Store:
    """Return the store at a URL, or else in a folder, which is made.

    Raises:
        MissingExtraError: the packages of the service are not installed.
        StoreError: the store cannot be opened.

    """
    require_service(what)
    from encamp.api.store import Store  # noqa: PLC0415 - loads the database's library

    if database is not None:
        return Store.open(database)
    folder = (data or data_folder()).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {folder} cannot be made: {error.strerror}"
        raise StoreError(msg) from None
    return Store.open(f"sqlite:///{folder / 'store.db'}")


@contextmanager
def opened(what: str, data: Path | None, database: str | None) -> Iterator[Store]:
    """Give that store, and close it."""
    store = open_store(what, data, database)
    try:
        yield store
    finally:
        store.close()


def shown(data: Path | None, database: str | None) -> str:
    """Return where a store is, without a password."""
    if database is None:
        return str((data or data_folder()).absolute())
    from sqlalchemy import make_url  # noqa: PLC0415 - as above

    return make_url(database).render_as_string(hide_password=True)
