"""Scores: how well an item answers a question, and what a summary keeps."""
