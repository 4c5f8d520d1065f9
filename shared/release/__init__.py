"""A release on disk: its manifest, its parts, and which releases are kept."""
