"""By day, in the background: what is said gets into the day store. `rounds.py` is the entry point."""
