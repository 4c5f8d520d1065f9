"""From a claimed task to its finished result: the worker, the calls of Claude, and the background work between messages."""
