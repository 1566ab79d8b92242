"""The database under the store: SQLite in a file, or PostgreSQL by URL.

A transaction that writes says so when it begins. SQLite then takes its one write lock
at once, so that two writers wait for each other rather than fail; readers go on beside
them (WAL).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from encamp.errors import MissingExtraError, OptionError, StoreError

_BUSY_S = 30
_MIGRATIONS = Path(__file__).parent / "migrations"
_SUBMIT_LOCK, _MIGRATE_LOCK = 0x656E_6301, 0x656E_6302
"""Names of PostgreSQL's advisory locks."""
_WRITES = "encamp_writes"
_POOL: dict[str, Any] = {
    "pool_size": 8,
    "max_overflow": 56,  # one for each thread that may want one
    "hide_parameters": True,  # errors are logged
}


def milliseconds() -> int:
    """Return the time as the store counts it."""
    return time.time_ns() // 10**6


@dataclass(frozen=True, slots=True)
class Database:
    """Connections to one database; safe to use from any thread."""

    engine: Engine
    now_ms: Callable[[], int] = field(default=milliseconds)

    @classmethod
    def open(cls, url: str, now_ms: Callable[[], int] = milliseconds) -> Database:
        """Return a database whose tables are those of this version.

        Raises:
            OptionError: the URL is none, or of a database that is not supported.
            MissingExtraError: the driver is not installed.
            StoreError: it cannot be reached, or its tables are of a newer version.

        """
        database = cls(_engine(_checked(url)), now_ms)
        try:
            database.migrate()
        except (SQLAlchemyError, OSError) as error:
            shown = make_url(url).render_as_string(hide_password=True)
            reason = str(error).partition("\n")[0]
            msg = f"the store at {shown} cannot be opened: {reason}"
            raise StoreError(msg) from None
        return database

    @property
    def is_sqlite(self) -> bool:
        """Return whether this is SQLite."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection to read from."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[Connection]:
        """Give a connection in a transaction, committed where nothing is raised.

        With `alone` no other such transaction is under way in any process.
        """
        engine = self.engine.execution_options(**{_WRITES: True})
        with engine.begin() as connection:
            if alone and not self.is_sqlite:
                _lock(connection, _SUBMIT_LOCK)
            yield connection

    def insert(self, table: Table) -> Any:  # noqa: ANN401 - one of two classes
        """Return an insert that can say what it does where the row exists."""
        dialect = sqlite if self.is_sqlite else postgresql
        return dialect.insert(table)

    def migrate(self) -> None:
        """Bring the tables to this version."""
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with self.writing() as connection:
            if not self.is_sqlite:
                _lock(connection, _MIGRATE_LOCK)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _lock(connection: Connection, name: int) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": name})


def _checked(url: str) -> URL:
    try:
        found = make_url(url)
    except ArgumentError:
        msg = (
            "the database URL does not parse; write sqlite:///FILE or postgresql://..."
        )
        raise OptionError(msg) from None
    backend = found.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        msg = f"the database is {backend!r}; use sqlite:///FILE or postgresql://..."
        raise OptionError(msg)
    if backend == "postgresql":
        if find_spec("psycopg") is None:
            msg = "PostgreSQL needs a driver: pip install 'encamp[postgres]'"
            raise MissingExtraError(msg)
        return found.set(drivername="postgresql+psycopg")
    return found


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return create_engine(url, **_POOL, pool_pre_ping=True)
    engine = create_engine(url, **_POOL, connect_args={"timeout": _BUSY_S})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - driver's
    connection.isolation_level = None  # the driver begins nothing of its own accord
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
