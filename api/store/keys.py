"""API keys as they are stored: hashed, scoped, of one tenant.

A key is 32 random bytes, so nobody finds it by trying and a plain hash of it keeps it
as well as a slow one would, which is for what people choose. It is shown once.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Row, select, update

from encamp.errors import NotFoundError, OptionError

from .database import Database
from .tables import keys

_PREFIX = "ek"
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class Scope(StrEnum):
    """What a key may do."""

    READ = "plan:read"
    """Read graphs, plans and operations; check plans."""
    WRITE = "plan:write"
    """Store graphs, ask for plans, cancel and delete operations."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret."""

    id: str
    tenant: str
    name: str
    scopes: frozenset[Scope]
    created_ms: int
    revoked_ms: int | None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of all tenants."""

    database: Database

    def create(
        self, name: str, scopes: Collection[Scope], tenant: str = "default"
    ) -> tuple[Key, str]:
        """Make a key; return it with the text to send, which is not kept.

        Raises:
            OptionError: there is no scope, or the tenant is no name.

        """
        if not scopes:
            msg = f"a key needs a scope: {', '.join(Scope)}"
            raise OptionError(msg)
        if not _TENANT.fullmatch(tenant):
            msg = f"not a tenant: {tenant!r}; use a-z, 0-9, '.', '_' and '-', up to 63"
            raise OptionError(msg)
        public, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        row = {
            "id": public,
            "tenant": tenant,
            "name": name,
            "scopes": " ".join(sorted(scopes)),
            "hash": _hash(secret),
            "created_ms": self.database.now_ms(),
        }
        with self.database.writing() as connection:
            connection.execute(keys.insert().values(row))
            made = connection.execute(select(keys).where(keys.c.id == public)).one()
        return _key(made), f"{_PREFIX}_{public}_{secret}"

    def find(self, text: str) -> Key | None:
        """Return the key that a text is, or None where it is none or was revoked."""
        prefix, _, rest = text.partition("_")
        public, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret:
            return None
        with self.database.reading() as connection:
            query = select(keys).where(keys.c.id == public)
            row = connection.execute(query).one_or_none()
        if row is None or not hmac.compare_digest(row.hash, _hash(secret)):
            return None
        return None if row.revoked_ms is not None else _key(row)

    def all(self) -> list[Key]:
        """Return all keys, oldest first."""
        with self.database.reading() as connection:
            query = select(keys).order_by(keys.c.created_ms, keys.c.id)
            return [_key(row) for row in connection.execute(query)]

    def revoke(self, name: str) -> Key:
        """Make a key worthless, for good.

        Raises:
            NotFoundError: there is no key of this id.

        """
        now = self.database.now_ms()
        with self.database.writing() as connection:
            connection.execute(
                update(keys)
                .where(keys.c.id == name, keys.c.revoked_ms.is_(None))
                .values(revoked_ms=now)
            )
            query = select(keys).where(keys.c.id == name)
            row = connection.execute(query).one_or_none()
        if row is None:
            msg = f"no key has the id {name!r}; `encamp keys list` shows them"
            raise NotFoundError(msg)
        return _key(row)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Row[tuple[str, ...]]) -> Key:
    return Key(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        scopes=frozenset(map(Scope, row.scopes.split())),
        created_ms=row.created_ms,
        revoked_ms=row.revoked_ms,
    )
