"""Facts, goals, preferences and their actions: read from tags, judged, searched, written for the prompt."""
