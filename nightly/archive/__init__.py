"""The archive of raw records: segments, their mirror on other hosts, erasure, export."""
