"""The index in the vector sets of a Redis 8."""
