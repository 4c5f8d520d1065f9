"""The tables of the day store in this version. A change of them is a new version: a store of another one is refused (database.py).

Times are POSIX seconds, vectors float32 little endian, JSON is text (PostgreSQL's own JSON refuses what a chat may say).
"""

from __future__ import annotations

import sqlalchemy as sa

VERSION = "0001"
#: Under our own name, because a database may contain other programs' tables.
version = sa.Table("hmem_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))

#: Ids or rows in one statement.
BATCH = 500

metadata = sa.MetaData()

#: One row for each chat with data: counters that change with its rows (`last_row`: of features' tables; a store calls it
#: by the first of them). `epoch` distinguishes a recreated row from the old one.
chats = sa.Table(
    "chats",
    metadata,
    sa.Column("chat_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, nullable=False),
    sa.Column("turns_changed", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("memories_changed", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("last_memory", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("last_schedule", sa.BigInteger, key="last_row", nullable=False, server_default="0"),
)

#: SQLite increments only an INTEGER by itself; AUTOINCREMENT never reuses a number.
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("turn_no", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("chat_id", sa.Text, nullable=False),
    sa.Column("turn_id", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("timestamp", sa.Double, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("session", sa.Text),
    sa.Column("extra", sa.Text, nullable=False, server_default="{}"),
    sa.Column("user_id", sa.Text),
    sa.Column("embedding", sa.LargeBinary),
    sa.Column("embedding_model", sa.Text),
    sa.UniqueConstraint("chat_id", "turn_id", name="turns_by_id"),
    sa.Index("turns_by_time", "chat_id", "timestamp"),
    sa.Index("turns_by_session", "chat_id", "session", "timestamp", "turn_id"),
    sa.Index("turns_by_age", "timestamp", "chat_id"),
    sa.Index("turns_by_model", "embedding_model", "timestamp"),
    sqlite_autoincrement=True,
)

summaries = sa.Table(
    "summaries",
    metadata,
    sa.Column("summary_id", sa.Text, primary_key=True),
    sa.Column("chat_id", sa.Text, nullable=False),
    sa.Column("session", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("turn_ids", sa.Text, nullable=False),
    sa.Column("last_turn", sa.Text, nullable=False),
    sa.Column("tier", sa.Text, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("embedding", sa.LargeBinary),
    sa.Column("embedding_model", sa.Text),
    sa.UniqueConstraint("chat_id", "session", "last_turn", name="summaries_once"),
    sa.Index("summaries_by_time", "chat_id", "ended_at"),
    sa.Index("summaries_by_model", "embedding_model"),
)

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("memory_id", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("chat_id", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("deadline", sa.Double),
    sa.Column("completed_at", sa.Double),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("importance", sa.Integer, nullable=False, server_default="3"),
    sa.Column("category", sa.Text),
    sa.Column("session", sa.Text),
    sa.Column("source_turn", sa.Text),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("last_accessed", sa.Double),
    sa.Column("access_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("embedding", sa.LargeBinary),
    sa.Column("embedding_model", sa.Text),
    sa.Column("reminded_at", sa.Double),
    sa.Column("superseded_by", sa.BigInteger),
    sa.Column("superseded_at", sa.Double),
    sa.Column("user_id", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("wordings", sa.Text),
    sa.Column("uid", sa.Text),
    sa.UniqueConstraint("chat_id", "number", name="memories_by_number"),
    sa.Index("memories_by_uid", "uid", unique=True),
    sa.Index("memories_by_model", "embedding_model"),
    sa.Index("memories_by_deadline", "deadline"),
    sqlite_autoincrement=True,
)

actions = sa.Table(
    "actions",
    metadata,
    sa.Column("chat_id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Index("actions_by_age", "at"),
)

#: Which memories and rows of features have changed since their last event (shared/turns/events.py) was handed to Redis. No words: an event has the
#: row as it is when it is handed over. `mark` differs with each change.
event_outbox = sa.Table(
    "event_outbox",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("chat_id", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("mark", sa.Text, nullable=False),
    sa.Index("event_outbox_by_time", "at"),
)
