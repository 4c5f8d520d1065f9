"""The tasks in Redis: claim, begin, finish, cancel, dead letter, and the Lua scripts that do it in one step."""
