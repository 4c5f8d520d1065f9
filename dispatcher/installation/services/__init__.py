"""What starts the programs of an installation: systemd, systemd of the user, or their owner."""
