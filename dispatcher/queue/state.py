"""Whether anybody answers: which dispatchers live, what waits, and whether what waits is taken.

A dispatcher of ours says that it lives (`hcli:mem:lease:…`, 30 s); another one, such as h-cli's, says nothing that could be seen here. One that
lives takes what is queued within a fraction of a second while it answers nobody, so a queue that nobody takes from for some seconds, though
nothing is being answered, stands still: its process is stopped, or its claim loop hangs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from redis import Redis, RedisError

from dispatcher.queue.scripts import script_text
from shared.config.settings import Settings
from shared.errors import HmemError, NoDispatcher, QueueStalled
from shared.turns.records import RecordRefused, Task
from shared.wire import keys
from shared.wire.values import living

#: Seconds for which a queue that seems to stand still is watched, and between two looks. A dispatcher that has lost Redis pauses for 3.2 s.
WATCH_SECONDS, LOOK_SECONDS = 5.0, 0.2
LOG = "journalctl -u hmem-dispatcher"


@dataclass(frozen=True)
class QueueState:
    """`answering`: tasks that living dispatchers hold. `oldest_seconds`: age of the head by the bot's clock, None where it does not say."""

    dispatchers: tuple[str, ...]
    queued: int
    answering: int
    oldest_seconds: float | None = None

    @property
    def waiting(self) -> str:
        """`10 messages wait, the first for 12 minutes`"""
        said = f"{self.queued} message{' waits' if self.queued == 1 else 's wait'}"
        if not self.queued or self.oldest_seconds is None:
            return said
        minutes = self.oldest_seconds / 60
        age = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
        return f"{said}, the first for {age}" if minutes >= 1 else said


def read_queue(client: Redis, task_bytes: int, now: float | None = None) -> QueueState:
    """How it is at this moment."""
    dispatchers = tuple(living(client))
    answering = sum(client.hlen(keys.inflight(name)) for name in dispatchers)
    queued = client.llen(keys.TASKS)
    return QueueState(
        dispatchers, queued, answering, oldest_seconds(client, task_bytes, now or time.time()) if queued else None
    )


def oldest_seconds(client: Redis, task_bytes: int, now: float) -> float | None:
    """Age of the head of the queue by its bot's clock; None if it does not say, or this user may not ask."""
    try:
        head = client.register_script(script_text("queue/head"))(keys=[keys.TASKS], args=[task_bytes])
        said = Task.parse(head).submitted_at if isinstance(head, bytes) else None
    except (RecordRefused, RedisError):  # not every user may run scripts
        return None
    return None if said is None else max(0.0, now - said)


def queue_error(client: Redis, settings: Settings, state: QueueState) -> HmemError | None:
    """Why messages are not answered, or None. A queue that seems to stand still is watched for WATCH_SECONDS first."""
    if not state.dispatchers:
        return _nobody(state)
    if state.queued and not state.answering and _stands_still(client, settings.task_bytes, state):
        names = ", ".join(state.dispatchers)
        return QueueStalled(
            f"The dispatcher {names} lives and takes nothing from the queue: {state.waiting}. "
            f"Restart it (systemctl restart hmem-dispatcher) and look at its log ({LOG})."
        )
    return None


def _nobody(state: QueueState) -> NoDispatcher:
    meanwhile = f"{state.waiting}, and nobody answers" if state.queued else "a message would wait unanswered"
    return NoDispatcher(
        f"No dispatcher of hcli-memory is running (another one, such as h-cli's, cannot be seen from here): {meanwhile}. "
        f"Start it (systemctl start hmem-dispatcher, or hmem run); if it does not stay, its log says why ({LOG})."
    )


def _stands_still(client: Redis, task_bytes: int, first: QueueState) -> bool:
    """Whether nothing is taken and nothing answered until the time is up; whatever moves ends the watch."""
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        now = read_queue(client, task_bytes)
        if now.answering or now.queued < first.queued or not now.queued:
            return False
    return True
