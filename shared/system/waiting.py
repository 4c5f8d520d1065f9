"""Waiting for an event, but not for longer than a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Returns when the event is set, or the time is up. `asyncio.wait_for` of Python 3.11 may swallow a cancellation."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
