"""Ids that outlive the store, and which rows have changed since the archive has them: at first all.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
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
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for table, key, kind in (("memories", "memory_id", "memory"), ("schedules", "schedule_id", "schedule")):
        op.add_column(table, sa.Column("uid", sa.Text))
        made = "lower(hex(randomblob(8)))" if is_sqlite else "right(replace(gen_random_uuid()::text, '-', ''), 16)"
        op.execute(f"UPDATE {table} SET uid = {made} WHERE {key} IS NOT NULL")  # noqa: S608 - fixed names
        op.create_index(f"{table}_by_uid", table, ["uid"], unique=True)
        op.execute(
            f"INSERT INTO event_outbox SELECT '{kind}', uid, chat_id, number, 'made', created, uid FROM {table}"  # noqa: S608
        )
