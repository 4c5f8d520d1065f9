"""Checks of what keeps others from reading: isolation of the parts, and encryption at rest."""
