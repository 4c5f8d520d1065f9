"""Recall: from a question to the items of one chat that answer it."""
