"""What the last nights were, for people: numbers in Redis."""
