"""Keys: the owner's signature, the signature of results, and encryption at rest."""
