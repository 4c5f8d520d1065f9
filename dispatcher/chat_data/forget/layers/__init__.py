"""The places where a word may lie on the day host; each knows how to find and erase it there."""
