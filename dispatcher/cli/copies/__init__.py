"""Commands for what a host keeps beside what it serves: backups, and the way back from them; releases."""
