"""What a dispatcher has, handed to each feature once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from dispatcher.answering.results import ResultBuilder
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.queue.rights import Rights
    from dispatcher.queue.tasks import TaskQueue
    from dispatcher.releases.served import ServedRelease
    from shared.config.settings import Settings


@dataclass(frozen=True)
class Core:
    """`redis` is the dispatcher's own connection, `background` one for threads; `served` is the release that is read."""

    settings: Settings
    redis: AsyncRedis
    background: Redis
    queue: TaskQueue
    day: DayMemory
    served: ServedRelease
    rights: Rights
    results: ResultBuilder
