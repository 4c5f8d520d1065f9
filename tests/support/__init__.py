"""Worlds, servers and helpers of the tests."""
