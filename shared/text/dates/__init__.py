"""Dates in words: what five languages call days and months, the arithmetic of the calendar, and the times past that a question names."""
