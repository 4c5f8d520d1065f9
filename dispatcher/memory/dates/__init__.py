"""Dates as people write them in facts, reminders and options."""
