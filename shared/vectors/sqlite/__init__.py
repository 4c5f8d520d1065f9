"""The default index: exact search over files that SQLite lists."""
