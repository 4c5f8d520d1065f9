"""The day: tasks in, context assembled, Claude asked, turns and results out."""
