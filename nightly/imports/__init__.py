"""History from other sources: one reader per format, and the filter that decides what is new."""
