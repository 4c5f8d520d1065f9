"""What the day remembers beside the release: today's turns, typed memories, session summaries, tombstones."""
