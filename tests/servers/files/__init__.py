"""Stand-ins for what has to do with the files of messages."""
