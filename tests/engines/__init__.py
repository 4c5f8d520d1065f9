"""The installation under the real engines that carry it: systemd and Docker (scripts/test --engines)."""
