"""The commands of `hmem-night`."""
