"""Whether the rows are sealed.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    op.create_table(
        "encryption",
        sa.Column("state", sa.Text, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
