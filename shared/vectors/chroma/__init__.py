"""The index in Chroma."""
