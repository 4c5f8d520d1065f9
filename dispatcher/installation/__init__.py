"""Setting this program up on a host, repairing it, and taking it out again."""
