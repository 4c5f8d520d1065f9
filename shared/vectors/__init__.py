"""The vector index: one interface, one builder for each kind of store."""
