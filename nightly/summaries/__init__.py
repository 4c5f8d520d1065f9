"""Summaries that a model writes, and the facts that it left out."""
