"""Settings, secrets and who may read them."""
