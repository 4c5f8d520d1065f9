"""The Telegram bot: it uses the Redis contract and the Bot API, and imports nothing of the dispatcher's worker."""
