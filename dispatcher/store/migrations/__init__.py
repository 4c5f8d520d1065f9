"""Alembic's scripts, found by their path. They only add: nothing that is stored is dropped, and there is no way back."""
