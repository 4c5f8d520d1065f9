"""The day's memory: turns since the last night, and what people asked to remember. `memory.py` is the entry point."""
