"""Full text for revisions that make a table with `words`."""

from __future__ import annotations

from alembic import op

from dispatcher.memory.store.full_text import index_statements


def index_words(table: str, key: str) -> None:
    """Index the column `words` of a new table; `key` is its whole-number primary key."""
    for statement in index_statements(op.get_bind().dialect.name, table, key):
        op.execute(statement)
