"""By day, in the background: turns get into the day store. `rounds.py` is the entry point."""
