"""A release on disk: its manifest, its parts, which are kept."""
