"""What fits into the prompt, and how it is written."""
