"""Dates in words: what seven languages call days and months, the arithmetic of the calendar, and the times past that a question names."""
