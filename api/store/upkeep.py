"""Keeping the store in shape: what is old goes, what is damaged is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    exists,
    func,
    select,
    text,
)

from encamp.api.operations import State
from encamp.check import check
from encamp.errors import StoreError, WireError
from encamp.wire import graph_from_json, plan_from_json

from .blobs import unpack
from .database import Database
from .tables import answers, graphs, operations, plans

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days operations that ended, and unused documents, are kept."""

    operations_days: int = 7
    documents_days: int = 90


@dataclass(frozen=True, slots=True)
class Removed:
    """How many of each went, or would go, and the bytes of their blobs."""

    operations: int
    answers: int
    plans: int
    graphs: int
    blob_bytes: int


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The collection of garbage, and the check of what is left."""

    database: Database

    def collect(self, keep: Retention, *, dry_run: bool = False) -> Removed:
        """Remove what was not used for as long as `keep` says.

        What something else needs stays: the graph of a plan, of an answer or of an
        operation, the plan of an answer. With `dry_run` it all stays.
        """
        with self.database.writing(alone=True) as connection:
            removed = self._collect(connection, keep)
            if dry_run:
                connection.rollback()
        return removed

    def _collect(self, connection: Connection, keep: Retention) -> Removed:
        now = self.database.now_ms()
        before = now - keep.documents_days * _DAY_MS
        ended = operations.c.ended_ms < now - keep.operations_days * _DAY_MS
        num_operations = _remove(connection, operations, ended)
        num_answers = _remove(connection, answers, answers.c.used_ms < before)
        old_plans = and_(plans.c.used_ms < before, ~_answered(), ~_resulted())
        old_graphs = and_(graphs.c.used_ms < before, ~_needed())
        plan_bytes = _blob_bytes(connection, plans, old_plans)
        num_plans = _remove(connection, plans, old_plans)
        graph_bytes = _blob_bytes(connection, graphs, old_graphs)
        num_graphs = _remove(connection, graphs, old_graphs)
        blob_bytes = plan_bytes + graph_bytes
        return Removed(num_operations, num_answers, num_plans, num_graphs, blob_bytes)

    def faults(self) -> Iterator[str]:
        """Say what is wrong in the store; nothing where all is well.

        Reads every document and checks every plan against its graph.
        """
        with self.database.reading() as connection:
            if self.database.is_sqlite:
                verdict = connection.execute(text("PRAGMA integrity_check")).scalars()
                yield from (line for line in verdict if line != "ok")
            yield from self._graph_faults(connection)
            yield from self._plan_faults(connection)
            yield from _loose_ends(connection)

    def _graph_faults(self, connection: Connection) -> Iterator[str]:
        for row in connection.execute(select(graphs)).yield_per(1):
            try:
                graph_from_json(unpack(row.blob, row.json_bytes, row.digest))
            except (StoreError, WireError) as error:
                yield f"graph {row.digest} of {row.tenant}: {error}"

    def _plan_faults(self, connection: Connection) -> Iterator[str]:
        joined = select(
            plans,
            graphs.c.blob.label("graph_blob"),
            graphs.c.json_bytes.label("graph_bytes"),
        ).outerjoin(
            graphs,
            and_(graphs.c.tenant == plans.c.tenant, graphs.c.digest == plans.c.graph),
        )
        for row in connection.execute(joined).yield_per(1):
            name = f"plan {row.digest} of {row.tenant}"
            if row.graph_blob is None:
                yield f"{name}: its graph {row.graph} is not there"
                continue
            try:
                plan = plan_from_json(unpack(row.blob, row.json_bytes, row.digest))
                content = unpack(row.graph_blob, row.graph_bytes, row.graph)
                broken = check(graph_from_json(content), plan)
            except (StoreError, WireError) as error:
                yield f"{name}: {error}"
                continue
            yield from (f"{name}: {violation.message}" for violation in broken)


def _loose_ends(connection: Connection) -> Iterator[str]:
    at = and_(plans.c.tenant == answers.c.tenant, plans.c.digest == answers.c.plan)
    lost = and_(answers.c.plan.is_not(None), ~exists().where(at))
    for key in connection.execute(select(answers.c.key).where(lost)).scalars():
        yield f"answer {key}: its plan is not there"
    held = [state for state in State if state.held]
    odd = operations.c.state.in_(held) != operations.c.owner.is_not(None)
    query = select(operations.c.id, operations.c.state).where(odd)
    for name, state in connection.execute(query):
        owner = "no" if state in held else "an"
        yield f"operation {name} is {state} and has {owner} owner"


def _answered() -> ColumnElement[bool]:
    return exists().where(
        answers.c.tenant == plans.c.tenant, answers.c.plan == plans.c.digest
    )


def _resulted() -> ColumnElement[bool]:
    """Return whether an operation's result may name the plan."""
    return exists().where(
        operations.c.tenant == plans.c.tenant, operations.c.graph == plans.c.graph
    )


def _needed() -> ColumnElement[bool]:
    return (
        exists().where(
            plans.c.tenant == graphs.c.tenant, plans.c.graph == graphs.c.digest
        )
        | exists().where(
            answers.c.tenant == graphs.c.tenant, answers.c.graph == graphs.c.digest
        )
        | exists().where(
            operations.c.tenant == graphs.c.tenant,
            operations.c.graph == graphs.c.digest,
        )
    )


def _remove(connection: Connection, table: Table, where: ColumnElement[bool]) -> int:
    return connection.execute(delete(table).where(where)).rowcount


def _blob_bytes(
    connection: Connection, table: Table, where: ColumnElement[bool]
) -> int:
    query = select(func.coalesce(func.sum(func.length(table.c.blob)), 0)).where(where)
    return int(connection.execute(query).scalar_one())
