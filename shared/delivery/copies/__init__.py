"""Copies that people keep elsewhere: a restic repository, and what is brought together for it."""
