"""The first: turns, summaries, typed memories, schedules, what the tags of an answer have done, events, and the counters of each chat.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "chats",
        sa.Column("chat_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("turns_changed", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("memories_changed", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_memory", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_schedule", sa.BigInteger, nullable=False, server_default="0"),
    )
    _create_turns()
    _create_summaries()
    _create_memories()
    _create_schedules()
    _create_events()
    op.create_table(
        "actions",
        sa.Column("chat_id", sa.Text, primary_key=True),
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("actions_by_age", "actions", ["at"])


def _create_turns() -> None:
    op.create_table(
        "turns",
        sa.Column("turn_no", _NUMBER, primary_key=True, autoincrement=True),
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
        sqlite_autoincrement=True,
    )
    op.create_index("turns_by_time", "turns", ["chat_id", "timestamp"])
    op.create_index("turns_by_session", "turns", ["chat_id", "session", "timestamp", "turn_id"])
    op.create_index("turns_by_age", "turns", ["timestamp", "chat_id"])
    op.create_index("turns_by_model", "turns", ["embedding_model", "timestamp"])


def _create_summaries() -> None:
    op.create_table(
        "summaries",
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
    )
    op.create_index("summaries_by_time", "summaries", ["chat_id", "ended_at"])
    op.create_index("summaries_by_model", "summaries", ["embedding_model"])


def _create_memories() -> None:
    op.create_table(
        "memories",
        sa.Column("memory_id", _NUMBER, primary_key=True, autoincrement=True),
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
        sa.Column("wordings", sa.Text),
        sa.Column("user_id", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("uid", sa.Text),
        sa.UniqueConstraint("chat_id", "number", name="memories_by_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("memories_by_model", "memories", ["embedding_model"])
    op.create_index("memories_by_deadline", "memories", ["deadline"])
    op.create_index("memories_by_uid", "memories", ["uid"], unique=True)


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("clock", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("snoozed", sa.Double),
        sa.Column("last_due", sa.Double),
        sa.Column("source_turn", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("uid", sa.Text),
        sa.UniqueConstraint("chat_id", "number", name="schedules_by_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("schedules_by_due", "schedules", ["due"])
    op.create_index("schedules_by_snooze", "schedules", ["snoozed"])
    op.create_index("schedules_by_uid", "schedules", ["uid"], unique=True)


def _create_events() -> None:
    op.create_table(
        "event_outbox",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("mark", sa.Text, nullable=False),
    )
    op.create_index("event_outbox_by_time", "event_outbox", ["at"])
