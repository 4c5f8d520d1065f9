"""A Redis that keeps what it is told."""

from tests.dispatcher.health.conftest import durable

__all__ = ["durable"]
