"""What the pages read of memory: one chat's talk, and of all chats their names, a search, and what is new."""
