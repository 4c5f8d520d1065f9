"""The Claude CLI: its command line, its process, its reply, and what it may reach."""
