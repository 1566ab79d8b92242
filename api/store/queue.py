"""Operations as they are stored: a queue that replicas take work from under leases.

A replica that works on an operation is its owner until the lease runs out, which it
prolongs by a heartbeat. Whoever finds a lease that has run out hands the operation
back. All that an owner writes is conditional on its still being the owner, so that one
taken for dead that wakes up again changes nothing. Replicas' clocks have to agree to
within a fraction of a lease.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, and_, delete, func, select, update

from encamp.api.operations import Happening, State, after, can, loss
from encamp.errors import BusyError, ConflictError

from .database import Database
from .tables import events, operations

_Known = TypeVar("_Known")
_RETRY_AFTER_S = 5
_LOST = {
    "type": "/problems/service-error",
    "title": "Service error",
    "status": 500,
    "detail": "the worker was lost, by a crash or a restart, as often as it was"
    " started; submit the request again, with less memory or time if that is why",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it stands; `request` and what follows are JSON documents."""

    id: str
    tenant: str
    kind: str
    state: State
    graph: str
    key: str
    requester: str
    request: Mapping[str, Any]
    progress: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    attempts: int
    owner: str | None
    lease_ms: int | None
    created_ms: int
    started_ms: int | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Submission:
    """What is asked for. Those of one `slot` in flight are one operation."""

    tenant: str
    kind: str
    graph: str
    key: str
    slot: str
    requester: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Room:
    """How many operations may wait in all, and be in flight for one requester."""

    queued: int
    per_requester: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """Something that happened to an operation; numbers go up by one from 1."""

    number: int
    at_ms: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Queue:
    """The operations of all tenants."""

    database: Database

    def submit(self, asked: Submission, room: Room) -> tuple[Operation, bool]:
        """Return the operation for a submission, and whether it is a new one.

        Raises:
            BusyError: there is no room for another one.

        """
        return self.submit_unless(asked, room, _nothing)

    def submit_unless(
        self, asked: Submission, room: Room, known: Callable[[], _Known | None]
    ) -> tuple[Operation, bool] | _Known:
        """Return what `submit` does, or else what is known once none is in flight.

        Asked before, `known` might miss an answer that comes while it is asked.

        Raises:
            BusyError: there is no room for another one.

        """
        with self.database.writing(alone=True) as connection:
            query = _rows().where(operations.c.slot == _slot(asked))
            found = connection.execute(query).one_or_none()
            if found is not None:
                return _operation(found), False
            answer = known()
            if answer is not None:
                return answer
            self._require_room(connection, asked.requester, room)
            return self._insert(connection, asked), True

    def get(self, tenant: str, name: str) -> Operation | None:
        """Return an operation of a tenant, or None."""
        where = and_(operations.c.tenant == tenant, operations.c.id == name)
        with self.database.reading() as connection:
            found = connection.execute(_rows().where(where)).one_or_none()
        return None if found is None else _operation(found)

    def page(
        self, tenant: str, size: int, before: str | None, state: State | None
    ) -> list[Operation]:
        """Return up to `size` operations, newest first, those older than `before`."""
        query = _rows().where(operations.c.tenant == tenant)
        if before is not None:
            query = query.where(operations.c.id < before)
        if state is not None:
            query = query.where(operations.c.state == state)
        query = query.order_by(operations.c.id.desc()).limit(size)
        with self.database.reading() as connection:
            return [_operation(row) for row in connection.execute(query)]

    def marks(self, names: Collection[str]) -> dict[str, tuple[State, int]]:
        """Return the state and the newest event number of operations that exist."""
        newest = (
            select(func.max(events.c.number))
            .where(events.c.operation == operations.c.id)
            .scalar_subquery()
        )
        query = select(operations.c.id, operations.c.state, newest)
        with self.database.reading() as connection:
            rows = connection.execute(query.where(operations.c.id.in_(names)))
            return {name: (State(state), last or 0) for name, state, last in rows}

    def events(self, name: str, after_number: int = 0) -> list[StoredEvent]:
        """Return what happened to an operation after an event."""
        fields = (events.c.number, events.c.at_ms, events.c.kind, events.c.data)
        query = (
            select(*fields)
            .where(events.c.operation == name, events.c.number > after_number)
            .order_by(events.c.number)
        )
        with self.database.reading() as connection:
            return [
                StoredEvent(number, at_ms, kind, json.loads(data))
                for number, at_ms, kind, data in connection.execute(query)
            ]

    def claim(self, owner: str, most: int, lease_ms: int) -> list[Operation]:
        """Take up to `most` operations from the queue, oldest first."""
        if most < 1:
            return []
        query = (
            _rows()
            .where(operations.c.state == State.QUEUED)
            .order_by(operations.c.created_ms, operations.c.id)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        now = self.database.now_ms()
        with self.database.writing() as connection:
            rows = connection.execute(query).all()
            return [
                self._move(
                    connection,
                    row,
                    Happening.CLAIM,
                    owner=owner,
                    lease_ms=now + lease_ms,
                    started_ms=row.started_ms or now,
                    attempts=row.attempts + 1,
                )
                for row in rows
            ]

    def beat(
        self, owner: str, lease_ms: int, names: Collection[str]
    ) -> dict[str, State]:
        """Prolong an owner's leases of these; return the states of what it holds."""
        now = self.database.now_ms()
        where = and_(operations.c.owner == owner, operations.c.id.in_(names))
        with self.database.writing() as connection:
            connection.execute(
                update(operations).where(where).values(lease_ms=now + lease_ms)
            )
            held = select(operations.c.id, operations.c.state).where(where)
            return {name: State(state) for name, state in connection.execute(held)}

    def note(
        self, name: str, owner: str, notes: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> bool:
        """Add events of a solve; return False where the lease was lost."""
        with self.database.writing() as connection:
            row = self._owned(connection, name, owner)
            if row is None:
                return False
            for kind, data in notes:
                self._add_event(connection, name, kind, data)
                connection.execute(
                    update(operations)
                    .where(operations.c.id == name)
                    .values(progress=json.dumps(data))
                )
        return True

    def end(
        self,
        connection: Connection,
        name: str,
        owner: str,
        happening: Happening,
        *,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> Operation | None:
        """End an operation, as part of a transaction; None where the lease was lost."""
        row = self._owned(connection, name, owner)
        if row is None:
            return None
        documents = {
            key: json.dumps(found)
            for key, found in (("result", result), ("error", error))
            if found is not None
        }
        return self._move(connection, row, happening, **documents)

    def cancel(self, tenant: str, name: str) -> Operation | None:
        """Ask for the end of an operation; what has ended stays as it is."""
        with self.database.writing() as connection:
            row = self._locked(connection, tenant, name)
            if row is None:
                return None
            if row.state == State.CANCELLING or not can(
                State(row.state), Happening.CANCEL
            ):
                return _operation(row)
            return self._move(connection, row, Happening.CANCEL)

    def remove(self, tenant: str, name: str) -> bool:
        """Forget an operation that has ended; return whether there was one.

        Raises:
            ConflictError: it has not ended.

        """
        with self.database.writing() as connection:
            row = self._locked(connection, tenant, name)
            if row is None:
                return False
            if not State(row.state).ended:
                msg = f"operation {name} is {row.state}; cancel it first"
                raise ConflictError(msg)
            connection.execute(delete(operations).where(operations.c.id == name))
        return True

    def take_back(self, owner: str | None = None) -> list[Operation]:
        """Hand back what an owner holds, or else whatever has a lease that ran out."""
        where = operations.c.owner == owner
        if owner is None:
            where = operations.c.lease_ms < self.database.now_ms()
        query = _rows().where(where).with_for_update(skip_locked=True)
        with self.database.writing() as connection:
            rows = connection.execute(query).all()
            return [self._release(connection, row, owner) for row in rows]

    def depths(self) -> dict[State, int]:
        """Return how many operations are in each state that is not an end."""
        live = [state for state in State if not state.ended]
        query = (
            select(operations.c.state, func.count())
            .where(operations.c.state.in_(live))
            .group_by(operations.c.state)
        )
        with self.database.reading() as connection:
            found = {State(s): n for s, n in connection.execute(query)}
        return {state: found.get(state, 0) for state in live}

    def _release(
        self, connection: Connection, row: Row[Any], owner: str | None
    ) -> Operation:
        # A replica that hands back on its way out has not lost anything.
        attempts = row.attempts if owner is None else row.attempts - 1
        happening = Happening.RELEASE if owner else loss(row.attempts)
        lost = {"error": json.dumps(_LOST)} if happening is Happening.GIVE_UP else {}
        return self._move(connection, row, happening, attempts=attempts, **lost)

    def _require_room(self, connection: Connection, requester: str, room: Room) -> None:
        waiting = operations.c.state == State.QUEUED
        in_flight = operations.c.slot.is_not(None)
        own = and_(in_flight, operations.c.requester == requester)
        if _count(connection, own) >= room.per_requester:
            msg = (
                f"{room.per_requester} operations of this key are in flight, as many"
                " as it may have; wait for one to end, or cancel one"
            )
            raise BusyError(msg, own=True, retry_after_s=_RETRY_AFTER_S)
        if _count(connection, waiting) >= room.queued:
            msg = f"{room.queued} operations wait already; try again later"
            raise BusyError(msg, own=False, retry_after_s=_RETRY_AFTER_S)

    def _insert(self, connection: Connection, asked: Submission) -> Operation:
        now = self.database.now_ms()
        row = {
            "id": f"op_{now:012x}{secrets.token_hex(8)}",
            "tenant": asked.tenant,
            "kind": asked.kind,
            "state": State.QUEUED,
            "graph": asked.graph,
            "key": asked.key,
            "slot": _slot(asked),
            "requester": asked.requester,
            "request": json.dumps(asked.request),
            "attempts": 0,
            "created_ms": now,
        }
        connection.execute(operations.insert().values(row))
        self._add_event(connection, str(row["id"]), "state", {"state": State.QUEUED})
        found = _rows().where(operations.c.id == row["id"])
        return _operation(connection.execute(found).one())

    def _locked(
        self, connection: Connection, tenant: str, name: str
    ) -> Row[Any] | None:
        where = and_(operations.c.tenant == tenant, operations.c.id == name)
        query = _rows().where(where).with_for_update()
        return connection.execute(query).one_or_none()

    def _owned(self, connection: Connection, name: str, owner: str) -> Row[Any] | None:
        where = and_(operations.c.id == name, operations.c.owner == owner)
        query = _rows().where(where).with_for_update()
        return connection.execute(query).one_or_none()

    def _move(
        self,
        connection: Connection,
        row: Row[Any],
        happening: Happening,
        **changes: object,
    ) -> Operation:
        state = after(State(row.state), happening)
        if not state.held:
            changes |= {"owner": None, "lease_ms": None}
        if state.ended:
            changes |= {"slot": None, "ended_ms": self.database.now_ms()}
        connection.execute(
            update(operations)
            .where(operations.c.id == row.id)
            .values(state=state, **changes)
        )
        self._add_event(connection, row.id, "state", {"state": state})
        found = _rows().where(operations.c.id == row.id)
        return _operation(connection.execute(found).one())

    def _add_event(
        self, connection: Connection, name: str, kind: str, data: Mapping[str, Any]
    ) -> None:
        newest = select(func.coalesce(func.max(events.c.number), 0)).where(
            events.c.operation == name
        )
        row = {
            "operation": name,
            "number": connection.execute(newest).scalar_one() + 1,
            "at_ms": self.database.now_ms(),
            "kind": kind,
            "data": json.dumps(data),
        }
        connection.execute(events.insert().values(row))


_FIELDS = tuple(operations.c[name] for name in Operation.__dataclass_fields__)


def _nothing() -> None:
    """Know nothing."""


def _rows() -> Select[Any]:
    return select(*_FIELDS)


def _slot(asked: Submission) -> str:
    return f"{asked.tenant}/{asked.slot}"


def _count(connection: Connection, where: Any) -> int:  # noqa: ANN401 - a condition
    query = select(func.count()).select_from(operations).where(where)
    return int(connection.execute(query).scalar_one())


def _operation(row: Row[Any]) -> Operation:
    found = dict(row._mapping)  # noqa: SLF001 - documented, in spite of its name
    for name in ("request", "progress", "result", "error"):
        found[name] = None if found[name] is None else json.loads(found[name])
    return Operation(**found | {"state": State(found["state"])})
