"""The tables of the store. `migrations` makes them; a test holds the two together.

Times are milliseconds since 1970 in UTC. Everything a tenant owns has its name in the
primary key: two tenants with the same graph share nothing, not even that it is there.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

graphs = Table(
    "graphs",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("digest", String(71), primary_key=True),
    Column("name", Text, nullable=False),
    Column("structure", String(71), nullable=False),
    Column("exact", String(71), nullable=False),
    Column("num_ops", Integer, nullable=False),
    Column("unplanned_peak_bytes", BigInteger, nullable=False),
    Column("device_bytes", BigInteger),
    Column("json_bytes", BigInteger, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("digest", String(71), primary_key=True),
    Column("graph", String(71), nullable=False),
    Column("json_bytes", BigInteger, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
    Index("plans_of_graph", "tenant", "graph"),
)

answers = Table(
    "answers",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("key", String(71), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("graph", String(71), nullable=False),
    Column("result", Text, nullable=False),
    Column("plan", String(71)),
    Column("final", Boolean, nullable=False),
    Column("spent_ms", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
    Index("answers_of_graph", "tenant", "graph"),
)

operations = Table(
    "operations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("graph", String(71), nullable=False),
    Column("key", String(71), nullable=False),
    Column("slot", String(140), unique=True),
    Column("requester", String(64), nullable=False),
    Column("request", Text, nullable=False),
    Column("progress", Text),
    Column("result", Text),
    Column("error", Text),
    Column("attempts", Integer, nullable=False),
    Column("owner", String(64)),
    Column("lease_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Index("operations_by_state", "state", "created_ms"),
    Index("operations_of_tenant", "tenant", "id"),
)

events = Table(
    "events",
    metadata,
    Column(
        "operation",
        String(40),
        ForeignKey("operations.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("number", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("data", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("revoked_ms", BigInteger),
)
