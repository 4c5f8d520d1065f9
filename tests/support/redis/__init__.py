"""A Redis with our users, every Lua script on each of its paths, and which commands our programs send."""
