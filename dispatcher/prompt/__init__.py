"""The memory text of the prompt: what fits into the budget, and how it is rendered."""
