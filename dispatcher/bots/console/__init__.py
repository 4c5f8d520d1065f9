"""The bot for a terminal: the Redis contract of any bot, and nothing else."""
