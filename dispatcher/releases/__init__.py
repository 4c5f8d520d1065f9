"""Releases on the day host: the one that is served, and the commands that switch them."""
