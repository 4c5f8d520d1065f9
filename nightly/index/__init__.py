"""What a night builds an index from, and what it takes over from the index before."""
