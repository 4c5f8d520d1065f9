"""The files that come with messages: stored by their hash by the bot, read by the dispatcher, for a day."""
