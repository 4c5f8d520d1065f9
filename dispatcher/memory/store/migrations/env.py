"""What Alembic runs for each upgrade: on the connection, and inside the transaction, that `dispatcher.memory.store.migrations.migrate` hands over."""

from __future__ import annotations

from alembic import context

from dispatcher.memory.store.tables import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
