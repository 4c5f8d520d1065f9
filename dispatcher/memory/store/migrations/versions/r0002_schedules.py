"""Reminders and scheduled questions.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("chats", sa.Column("last_schedule", sa.BigInteger, nullable=False, server_default="0"))
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
        sa.UniqueConstraint("chat_id", "number", name="schedules_by_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("schedules_by_due", "schedules", ["due"])
    op.create_index("schedules_by_snooze", "schedules", ["snoozed"])
