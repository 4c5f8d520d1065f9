"""The first: nothing to run, because a new store is made of tables.py. A revision that changes tables.py says here what older stores need.

Revision ID: 0001
"""

from __future__ import annotations

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    """No store is older."""
