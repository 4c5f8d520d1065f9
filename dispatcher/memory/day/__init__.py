"""The memory of the day: what was said since the last night, and what people asked to be kept. `memory.py` is the way in."""
