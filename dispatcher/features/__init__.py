"""What can be taken out: each folder is one feature (shared/hooks.py), and nothing outside imports it."""
