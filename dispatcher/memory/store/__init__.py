"""The day store: turns of the last days, session summaries and typed memories, in SQL.

What reads no memory does not import it: SQLAlchemy takes a fifth of a second.
"""
