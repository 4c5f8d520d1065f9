"""Turns, and a counter a chat.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dispatcher.memory.store.migrations.full_text import index_words
from shared.errors import StoreUnavailable

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    op.create_table(
        "chats",
        sa.Column("chat_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("turns_changed", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "turns",
        sa.Column("turn_no", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("timestamp", sa.Double, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("session", sa.Text),
        sa.Column("extra", sa.Text, nullable=False, server_default="{}"),
        sa.Column("channel_type", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("language", sa.Text),
        sa.Column("metadata", sa.Text, nullable=False, server_default="{}"),
        sa.Column("embedding", sa.LargeBinary),
        sa.Column("embedding_model", sa.Text),
        sa.Column("words", sa.Text),
        sa.UniqueConstraint("chat_id", "turn_id", name="turns_by_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("turns_by_time", "turns", ["chat_id", "timestamp"])
    op.create_index("turns_by_session", "turns", ["chat_id", "session", "timestamp", "turn_id"])
    op.create_index("turns_by_age", "turns", ["timestamp", "chat_id"])
    op.create_index("turns_by_model", "turns", ["embedding_model", "timestamp"])
    index_words("turns", "turn_no")


def downgrade() -> None:
    raise StoreUnavailable("The medium store does not go back to an earlier revision. Restore the copy made before it.")
