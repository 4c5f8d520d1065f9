"""`hmem backup` and `hmem restore`: a copy of the installation in a restic repository, tried out, and brought back."""
