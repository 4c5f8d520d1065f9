"""Encryption at rest on the night host."""
