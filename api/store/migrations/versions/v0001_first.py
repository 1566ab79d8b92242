"""Graphs, plans, answers, operations with their events, keys."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DIGEST = sa.String(71)


def upgrade() -> None:
    """Make the first tables."""
    _blobs("graphs", _GRAPH_COLUMNS)
    _blobs("plans", (sa.Column("graph", _DIGEST, nullable=False),))
    op.create_index("plans_of_graph", "plans", ["tenant", "graph"])
    _answers()
    _operations()
    _events()
    _keys()


def downgrade() -> None:
    """Drop them."""
    for table in ("keys", "events", "operations", "answers", "plans", "graphs"):
        op.drop_table(table)


_GRAPH_COLUMNS: tuple[sa.Column[Any], ...] = (
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("structure", _DIGEST, nullable=False),
    sa.Column("exact", _DIGEST, nullable=False),
    sa.Column("num_ops", sa.Integer, nullable=False),
    sa.Column("unplanned_peak_bytes", sa.BigInteger, nullable=False),
    sa.Column("device_bytes", sa.BigInteger),
)


def _blobs(table: str, columns: tuple[sa.Column[Any], ...]) -> None:
    op.create_table(
        table,
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("digest", _DIGEST, primary_key=True),
        *columns,
        sa.Column("json_bytes", sa.BigInteger, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        *_used(),
    )


def _used() -> tuple[sa.Column[int], sa.Column[int]]:
    return (
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("used_ms", sa.BigInteger, nullable=False),
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("key", _DIGEST, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("graph", _DIGEST, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("plan", _DIGEST),
        sa.Column("final", sa.Boolean, nullable=False),
        sa.Column("spent_ms", sa.BigInteger, nullable=False),
        *_used(),
    )
    op.create_index("answers_of_graph", "answers", ["tenant", "graph"])


def _operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("graph", _DIGEST, nullable=False),
        sa.Column("key", _DIGEST, nullable=False),
        sa.Column("slot", sa.String(140), unique=True),
        sa.Column("requester", sa.String(64), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("progress", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(64)),
        sa.Column("lease_ms", sa.BigInteger),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger),
        sa.Column("ended_ms", sa.BigInteger),
    )
    op.create_index("operations_by_state", "operations", ["state", "created_ms"])
    op.create_index("operations_of_tenant", "operations", ["tenant", "id"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column(
            "operation",
            sa.String(40),
            sa.ForeignKey("operations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )


def _keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("revoked_ms", sa.BigInteger),
    )
