"""Alembic's scripts, found by their path. Nothing that was said or kept is dropped, and there is no way back."""
