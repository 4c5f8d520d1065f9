"""What goes to Telegram: answers, and the bot's own messages."""
