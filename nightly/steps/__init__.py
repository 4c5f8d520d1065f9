"""The steps of a night. pipeline.STEPS is their order; each reads what the ones before it left on disk."""
