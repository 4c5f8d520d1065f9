"""Everything that is kept about one chat, as a folder for its people."""
