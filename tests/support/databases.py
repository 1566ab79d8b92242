"""A throw-away database for each test: SQLite in a file, or a schema of PostgreSQL."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

KINDS = ("sqlite", "postgresql")
_SERVER = os.environ.get(
    "ENCAMP_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/test"
)


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database; skip where there is no PostgreSQL."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'store.db'}"
        return
    schema = f"encamp_{secrets.token_hex(8)}"
    engine = create_engine(
        _SERVER, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3}
    )
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
    except SQLAlchemyError as error:
        pytest.skip(f"no PostgreSQL answers: {str(error).partition(chr(10))[0]}")
    try:
        yield f"{_SERVER}?options=-csearch_path%3D{schema}"
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        engine.dispose()
