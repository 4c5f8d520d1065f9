"""The models that come with the program."""
