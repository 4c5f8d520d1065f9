"""What both hosts share: the wire contract, settings, files, embeddings, the release and the search over it."""
