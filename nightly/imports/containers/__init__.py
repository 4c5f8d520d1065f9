"""What people bring their history in: a file, a directory, or a ZIP archive. Read in place; nothing is ever unpacked to the disk."""
