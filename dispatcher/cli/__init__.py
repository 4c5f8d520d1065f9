"""The commands of `hmem`: one file for each command or group of commands."""
