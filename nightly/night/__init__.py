"""One night: its folder, target host, time limit, progress and failure report."""
