"""Graphs and plans by digest, and what was answered to which question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, select, update

from encamp import fingerprint
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.replay import replay
from encamp.wire import plan_to_json

from .blobs import digest_of, pack, unpack
from .database import Database
from .tables import answers, graphs, plans

_TOUCH_MS = 3_600_000
"""How stale the note of a last use may be: a read is not to cost a write each time."""


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """What is known of a stored graph without reading it."""

    digest: str
    name: str
    structure: str
    exact: str
    num_ops: int
    unplanned_peak_bytes: int
    device_bytes: int | None
    json_bytes: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The best that is known in answer to a question.

    `result` is a JSON document and `plan` the digest of the plan in it, where there is
    one. An answer that is `final` is the same however long one searches; any other is
    what a search of `spent_ms` milliseconds found.
    """

    key: str
    kind: str
    graph: str
    result: str
    plan: str | None
    final: bool
    spent_ms: int

    def serves(self, limit_ms: int | None) -> bool:
        """Return whether a search with this limit could not be expected to do more."""
        return self.final or (limit_ms is not None and limit_ms <= self.spent_ms)


@dataclass(frozen=True, slots=True)
class Documents:
    """The graphs, plans and answers of all tenants."""

    database: Database

    def put_graph(self, tenant: str, content: bytes, graph: CostGraph) -> str:
        """Store a graph and return its digest; `content` is its document.

        Storing what is there already notes that it was used.
        """
        device = graph.meta.get("device_memory_bytes")
        row: dict[str, object] = {
            "digest": digest_of(content),
            "name": graph.name,
            "structure": fingerprint.structure(graph),
            "exact": fingerprint.exact(graph),
            "num_ops": len(graph.ops),
            "unplanned_peak_bytes": replay(graph).peak_bytes,
            "device_bytes": device if isinstance(device, int) else None,
        }
        with self.database.writing() as connection:
            self._put(connection, graphs, tenant, content, row)
        return str(row["digest"])

    def graph(self, tenant: str, digest: str) -> bytes | None:
        """Return a graph's document, or None."""
        return self._content(graphs, tenant, digest)

    def graph_entry(self, tenant: str, digest: str) -> GraphEntry | None:
        """Return what is known of a graph, or None."""
        fields = [graphs.c[name] for name in GraphEntry.__dataclass_fields__]
        with self.database.reading() as connection:
            query = select(*fields, graphs.c.used_ms).where(_at(graphs, tenant, digest))
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        self._touch(graphs, tenant, digest, row.used_ms)
        return GraphEntry(*row[:-1])

    def plan(self, tenant: str, digest: str) -> bytes | None:
        """Return a plan's document, or None."""
        return self._content(plans, tenant, digest)

    def graph_of_plan(self, tenant: str, digest: str) -> str | None:
        """Return the digest of the graph a plan was made for, or None."""
        with self.database.reading() as connection:
            query = select(plans.c.graph).where(_at(plans, tenant, digest))
            found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def put_plan(
        self, connection: Connection, tenant: str, graph: str, plan: Plan
    ) -> str:
        """Store the plan of a graph and return its digest."""
        content = plan_to_json(plan).encode()
        row = {"digest": digest_of(content), "graph": graph}
        self._put(connection, plans, tenant, content, row)
        return row["digest"]

    def answer(self, tenant: str, key: str) -> Answer | None:
        """Return the best that is known in answer to a question, or None."""
        fields = [answers.c[name] for name in Answer.__dataclass_fields__]
        where = (answers.c.tenant == tenant) & (answers.c.key == key)
        with self.database.reading() as connection:
            row = connection.execute(
                select(*fields, answers.c.used_ms).where(where)
            ).one_or_none()
        if row is None:
            return None
        self._touch(answers, tenant, key, row.used_ms)
        return Answer(*row[:-1])

    def put_answer(self, connection: Connection, tenant: str, answer: Answer) -> None:
        """Keep an answer in the place of the one that was known before."""
        now = self.database.now_ms()
        row = {name: getattr(answer, name) for name in Answer.__dataclass_fields__}
        row |= {"tenant": tenant, "created_ms": now, "used_ms": now}
        changed = {k: v for k, v in row.items() if k not in ("tenant", "key")}
        connection.execute(
            self.database.insert(answers)
            .values(row)
            .on_conflict_do_update(index_elements=["tenant", "key"], set_=changed)
        )

    def _put(
        self,
        connection: Connection,
        table: Table,
        tenant: str,
        content: bytes,
        row: Mapping[str, object],
    ) -> None:
        now = self.database.now_ms()
        row = {
            **row,
            "tenant": tenant,
            "json_bytes": len(content),
            "blob": pack(content),
            "created_ms": now,
            "used_ms": now,
        }
        connection.execute(
            self.database.insert(table)
            .values(row)
            .on_conflict_do_update(
                index_elements=["tenant", "digest"], set_={"used_ms": now}
            )
        )

    def _content(self, table: Table, tenant: str, digest: str) -> bytes | None:
        fields = (table.c.blob, table.c.json_bytes, table.c.used_ms)
        with self.database.reading() as connection:
            query = select(*fields).where(_at(table, tenant, digest))
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        self._touch(table, tenant, digest, row.used_ms)
        return unpack(row.blob, row.json_bytes, digest)

    def _touch(self, table: Table, tenant: str, name: str, used_ms: int) -> None:
        now = self.database.now_ms()
        if now - used_ms < _TOUCH_MS:
            return
        column = table.c.key if table is answers else table.c.digest
        where = and_(table.c.tenant == tenant, column == name)
        with self.database.writing() as connection:
            connection.execute(update(table).where(where).values(used_ms=now))


def _at(table: Table, tenant: str, digest: str) -> ColumnElement[bool]:
    return and_(table.c.tenant == tenant, table.c.digest == digest)
