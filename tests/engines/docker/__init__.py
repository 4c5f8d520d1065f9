"""A Docker engine, what stands for the base images, and the services of the compose file."""
