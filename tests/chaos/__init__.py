"""Proof by breaking: checks that kill, cut and damage a real installation and count what was lost, doubled or torn. Run by scripts/chaos."""
