"""The input of the indexes that a night builds, and what it reuses from the previous indexes."""
