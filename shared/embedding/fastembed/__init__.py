"""Models of fastembed."""
