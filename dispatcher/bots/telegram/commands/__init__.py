"""What the bot answers by itself, without the dispatcher."""
