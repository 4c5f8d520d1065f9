"""The day store: turns of the last days, session summaries and typed memories, in SQL. Import it late: SQLAlchemy takes a fifth of a second."""
