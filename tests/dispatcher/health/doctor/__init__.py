"""What the dispatcher tells the owner and the chats by itself."""
