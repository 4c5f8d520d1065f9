"""`hmem restore`: the ways back from copies."""
