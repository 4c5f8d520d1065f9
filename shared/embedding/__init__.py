"""Embedding models and the servers that run them."""
