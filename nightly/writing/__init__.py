"""Texts that a model writes by night: summaries of chats, and notes of turns, by which these are found."""
