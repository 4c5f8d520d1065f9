"""Who asks, what for, and what they send."""
