"""The chaos checks: each breaks one kind of thing."""
