"""From a claimed task to its finished result: the worker, what it asks Claude, and the work between two messages."""
