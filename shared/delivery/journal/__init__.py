"""The journal of the day as it lies on a disk: its lines, its files, and what follows from them. Read by day and by night; written by the day."""
