"""The index in a Redis with the search module."""
