"""What the last nights were, for people: numbers in Redis, a picture, lines and a page."""
