"""What goes over Redis: keys, users, values, JSON."""
