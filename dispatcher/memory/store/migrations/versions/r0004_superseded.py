"""Which newer memory took a memory's place, and when; other words in which a memory was told.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shared.errors import StoreUnavailable

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("memories", sa.Column("superseded_by", sa.BigInteger))
    op.add_column("memories", sa.Column("superseded_at", sa.Double))
    op.add_column("memories", sa.Column("wordings", sa.Text))


def downgrade() -> None:
    raise StoreUnavailable("The medium store does not go back to an earlier revision. Restore the copy made before it.")
