"""Where Alembic begins: it runs the steps on the connection it is handed."""

from __future__ import annotations

from alembic import context

from encamp.api.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
