"""Keys: the owner's signature, and the signature of results."""
