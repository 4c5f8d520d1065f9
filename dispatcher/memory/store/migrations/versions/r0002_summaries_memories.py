"""Session summaries and typed memories.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dispatcher.memory.store.migrations.full_text import index_words
from shared.errors import StoreUnavailable

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("chats", sa.Column("memories_changed", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("chats", sa.Column("last_memory", sa.BigInteger, nullable=False, server_default="0"))
    _create_summaries()
    _create_memories()


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
        sa.Column(
            "memory_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
        ),
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
        sa.Column("language", sa.Text),
        sa.Column("words", sa.Text),
        sa.UniqueConstraint("chat_id", "number", name="memories_by_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("memories_by_model", "memories", ["embedding_model"])
    index_words("memories", "memory_id")


def downgrade() -> None:
    raise StoreUnavailable("The medium store does not go back to an earlier revision. Restore the copy made before it.")
