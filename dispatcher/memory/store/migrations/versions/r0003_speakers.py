"""Who said a memory of a group.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    op.add_column("memories", sa.Column("user_id", sa.Text))
    op.add_column("memories", sa.Column("name", sa.Text))
