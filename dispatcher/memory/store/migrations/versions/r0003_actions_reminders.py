"""What the tags of an answer have done, and whether a goal's deadline was brought to mind.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shared.errors import StoreUnavailable

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
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
    op.add_column("memories", sa.Column("reminded_at", sa.Double))
    op.create_index("memories_by_deadline", "memories", ["deadline"])


def downgrade() -> None:
    raise StoreUnavailable("The medium store does not go back to an earlier revision. Restore the copy made before it.")
