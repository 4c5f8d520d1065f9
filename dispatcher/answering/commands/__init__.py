"""Messages that the dispatcher answers itself, without Claude: nothing of them is stored as a turn."""
