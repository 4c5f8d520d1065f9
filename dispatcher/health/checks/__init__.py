"""The checks of `hmem doctor`."""
