"""Real models for the tests with engines: how they are got, and what serves them (setup.py)."""
