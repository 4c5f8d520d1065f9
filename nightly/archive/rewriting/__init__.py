"""What is rewritten in the archive: without what was erased, or encrypted."""
