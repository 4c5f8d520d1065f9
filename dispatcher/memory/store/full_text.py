"""Full text over a table's `words` (see dispatcher/memory/store/words.py): the statements that index the column, for each engine."""

from __future__ import annotations

#: `ascii` takes every character beyond ASCII for a part of a word: the words stay as they were made. No positions, no sizes: they are only looked up.
_SQLITE = (
    "CREATE VIRTUAL TABLE {table}_fts USING fts5("
    "words, content='{table}', content_rowid='{key}', tokenize='ascii', detail=none, columnsize=0)",
    "CREATE TRIGGER {table}_fts_insert AFTER INSERT ON {table} BEGIN {insert}; END",
    "CREATE TRIGGER {table}_fts_delete AFTER DELETE ON {table} BEGIN {delete}; END",
    "CREATE TRIGGER {table}_fts_update AFTER UPDATE OF words ON {table} BEGIN {delete}; {insert}; END",
)
_INSERT = "INSERT INTO {table}_fts (rowid, words) VALUES (new.{key}, new.words)"
_DELETE = "INSERT INTO {table}_fts ({table}_fts, rowid, words) VALUES ('delete', old.{key}, old.words)"
_POSTGRESQL = "CREATE INDEX {table}_words ON {table} USING gin (array_to_tsvector(string_to_array(words, ' ')))"


def index_statements(dialect: str, table: str, key: str) -> list[str]:
    """What indexes the column `words` of a new table; `key` is its whole-number primary key."""
    if dialect != "sqlite":
        return [_POSTGRESQL.format(table=table)]
    insert, delete = (part.format(table=table, key=key) for part in (_INSERT, _DELETE))
    return [statement.format(table=table, key=key, insert=insert, delete=delete) for statement in _SQLITE]
