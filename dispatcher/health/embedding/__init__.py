"""How well an embedding model finds the turns of a release, and which languages they are in."""
