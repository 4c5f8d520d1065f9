"""What comes from Telegram: updates, and what a message means to the bot."""
