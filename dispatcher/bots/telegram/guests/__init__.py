"""Chats that owners have allowed from the chat: invitations, guests, and groups."""
