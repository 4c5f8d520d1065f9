"""The index in a PostgreSQL with pgvector."""
