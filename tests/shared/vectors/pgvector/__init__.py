"""The index pgvector, on a real PostgreSQL."""
