"""What Redis has of a chat beside its tasks: its last messages and answers, and what it has chosen."""
