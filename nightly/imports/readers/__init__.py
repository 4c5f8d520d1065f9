"""A reader for each format that people bring their history in."""
