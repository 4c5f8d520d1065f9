"""The commands of `hmem`: a command, or a group of commands, is a file."""
