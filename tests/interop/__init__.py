"""h-cli's published bot and dispatcher beside ours: their files are run as they are, from the directory that --interop names."""
