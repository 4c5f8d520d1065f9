"""Front ends: each takes messages in, pushes them as tasks, and delivers the answers. They use the Redis contract only."""
