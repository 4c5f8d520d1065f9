"""How a release comes to the day host: received, verified, tried, switched."""
