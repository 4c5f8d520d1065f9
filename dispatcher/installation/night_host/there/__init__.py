"""What runs on the night host: before the program is there (bootstrap.py), and as a part of it."""
