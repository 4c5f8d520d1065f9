"""What the chaos checks are made of: worlds, damage, the oracle."""
