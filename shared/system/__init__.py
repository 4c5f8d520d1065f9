"""Files, processes, privileges, keys of this machine."""
