"""History that was kept elsewhere: one reader a format, and what decides which of it is new."""
