"""Turns keep the user's id, and no columns for channels that there never were.

`channel_type` was always "telegram", `channel` the chat id and `metadata` empty; `user_id` held the display name, which `name` has.

Revision ID: 0005
"""

from __future__ import annotations

from alembic import op

from shared.errors import StoreUnavailable

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("UPDATE turns SET user_id = NULL")
    for column in ("channel_type", "channel", "metadata"):
        op.drop_column("turns", column)


def downgrade() -> None:
    raise StoreUnavailable("The medium store does not go back to an earlier revision. Restore the copy made before it.")
