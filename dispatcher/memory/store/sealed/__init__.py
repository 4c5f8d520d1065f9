"""Encryption at rest of the day store: columns that are sealed, and stores that were written before it was switched on."""
