"""The Telegram bot: it speaks the Redis contract and the Bot API, and imports nothing of the dispatcher's worker."""
