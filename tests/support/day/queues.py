"""Workers on a queue, in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dispatcher.queue.existing_values import is_signed
from dispatcher.queue.tasks import Claim, Finished, TaskQueue
from shared.turns.records import Task, Turn
from shared.turns.signed import Result
from shared.wire.client import open_async_redis
from tests.support.world import World

Scenario = Callable[[TaskQueue, TaskQueue], Awaitable[Any]]


def play(world: World, scenario: Scenario) -> Any:
    """Run a scenario with two workers on the world's Redis."""

    async def run() -> Any:
        clients = [open_async_redis(world.settings().redis_url) for _ in range(2)]
        try:
            one, two = (TaskQueue(client, partial(is_signed, "k"), world.settings()) for client in clients)
            return await scenario(one, two)
        finally:
            for client in clients:
                await client.aclose()

    return asyncio.run(run())


def finished(claim: Claim, **more: Any) -> Finished:
    task = Task.parse(claim.raw)
    turns = [Turn(task.task_id, role, task.chat_id, f"{role} of {task.message}", 1.0) for role in ("user", "asst")]
    defaults: dict[str, Any] = {"session_was": "", "session": "s", "stats": [("tasks", "1")]}
    result = Result.sign("k", task.task_id, "out", "2026-01-01T00:00:00+00:00")
    return Finished(task, result, turns, **(defaults | more))


async def claimed(queue: TaskQueue) -> Claim:
    claim = await queue.claim(queue.next_token())
    assert isinstance(claim, Claim)
    return claim
