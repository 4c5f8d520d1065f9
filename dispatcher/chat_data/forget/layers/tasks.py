"""Tasks that are queued or in flight: covered ones are answered without Claude, or cancelled; the others are waited for.

A running task may repeat what is being forgotten, so a chat's forgetting is complete only when none of its tasks is running.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis import Redis

from dispatcher.chat_data.forget.layers.redis import quoted
from dispatcher.chat_data.forget.request import Scope, chat_in
from dispatcher.memory.tombstones import FORGOTTEN
from dispatcher.queue.existing_values import ExistingResult, is_signed
from dispatcher.queue.scripts import script_text
from shared.text.translations import speaking, tr
from shared.turns.records import MOST_TASK_BYTES, ROLES, RecordRefused, Task, Turn
from shared.turns.signed import Result
from shared.wire import keys

#: How long to wait for running tasks to end, and between two checks. Seconds.
TASK_END_SECONDS, LOOK_SECONDS = 30.0, 0.2
#: Worker and token of a task that is queued.
NOBODY = ""


@dataclass(frozen=True)
class Running:
    """A task that is queued or in flight; `task` is None if it cannot be read."""

    raw: bytes
    task: Task | None
    chat_id: str
    worker: str = NOBODY
    token: str = NOBODY

    @property
    def text(self) -> str:
        return self.task.words if self.task else " ".join(quoted(self.raw))

    @property
    def turn_ids(self) -> list[str]:
        """Of the turns that it may write."""
        if self.task is None:
            return []
        corrects = [f"{self.task.corrects}:user"] if self.task.corrects else []
        return [*(f"{self.task.task_id}:{role}" for role in ("user", "asst")), *corrects]


class TasksLayer:
    """`secret` signs the results; a queued task that is too large is truncated in place."""

    def __init__(self, client: Redis, secret: str) -> None:
        self._redis: Any = client
        self._secret = secret
        self._withdraw = client.register_script(script_text("chat_data/forget/layers/withdraw"))
        self._queued: Any = client.register_script(script_text("queue/queued"))

    def all(self) -> Iterator[Running]:
        for raw in self._queued(keys=[keys.TASKS], args=[0, -1, MOST_TASK_BYTES]):
            yield _read(raw)
        for member in self._redis.smembers(keys.WORKERS):
            worker = member.decode("utf-8", "replace")
            for token, raw in self._redis.hgetall(keys.inflight(worker)).items():
                yield _read(raw, worker, token.decode("utf-8", "replace"))

    def covered(self, scope: Scope) -> list[Running]:
        return [one for one in self.all() if _covers(scope, one)]

    def withdraw(self, scope: Scope) -> int:
        """Remove the covered tasks from the queue, and from dead workers; returns how many."""
        return sum(self._withdrawn(one) for one in self.covered(scope))

    def cancel(self, scope: Scope) -> list[Running]:
        """Cancel the covered tasks that are running; returns all running tasks of these chats."""
        running = [one for one in self.all() if one.worker and one.chat_id in scope.chats]
        for one in running:
            if one.task and _covers(scope, one):
                self._redis.set(keys.cancel(one.task.task_id), "1", ex=keys.CANCEL_TTL_SECONDS)
        return running

    def wait(self, scope: Scope) -> list[Running]:
        """Wait until none of the chats' current tasks is in flight; returns the ones that still are after TASK_END_SECONDS."""
        waited = {one.token for one in self.cancel(scope)}
        deadline = time.monotonic() + TASK_END_SECONDS
        while True:
            self.withdraw(scope)  # tasks of a dead dispatcher have returned to the queue
            left = [one for one in self.all() if one.token in waited]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(LOOK_SECONDS)

    def stored_late(self, scope: Scope, tasks: list[Running]) -> list[Turn]:
        """Turns that no tombstone covers, and that these tasks stored, if the task is covered or the turn contains the text."""
        covered = {one for task in tasks if _covers(scope, task) for one in task.turn_ids}
        if scope.whole_chat:  # also ones that ended before we checked, or while this command was not running
            covered |= {f"{task_id}:{role}" for task_id in scope.tasks for role in ROLES}
        ids = covered | {one for task in tasks for one in task.turn_ids}
        names = [f"{keys.MEMORY_PREFIX}{one}" for one in sorted(ids)]
        found = []
        for name, raw in zip(names, self._redis.mget(names) if names else (), strict=True):
            try:
                turn = Turn.parse(name.encode(), raw) if raw else None
            except RecordRefused:
                continue
            if turn and not scope.covers(turn) and (turn.turn_id in covered or scope.asked.holds(turn.words)):
                found.append(turn)
        return found

    def _withdrawn(self, one: Running) -> int:
        task = one.task
        with speaking(task.language if task else None):
            result = Result.sign(self._secret, task.task_id, tr(FORGOTTEN), error=True).to_json() if task else b""
        name = task.task_id if task else "none"
        worker = [keys.inflight(one.worker), keys.lease(one.worker)]
        names = [keys.TASKS, *worker, keys.BUSY, keys.result(name), keys.done(name)]
        answer: list[bytes | str | int] = [one.raw, one.token, one.chat_id, result, keys.RESULT_TTL_SECONDS]
        arguments = [*answer, task.digest if task else "", keys.DONE_TTL_SECONDS]
        existing = ExistingResult(name, partial(is_signed, self._secret))
        while not existing.settled(done := self._withdraw(keys=names, args=[*arguments, *existing.arguments])):
            pass
        return int(done)


def _read(raw: bytes, worker: str = NOBODY, token: str = NOBODY) -> Running:
    try:
        task = Task.parse(raw)
    except RecordRefused:
        return Running(raw, None, chat_in(raw) or "", worker, token)
    return Running(raw, task, task.chat_id, worker, token)


def _covers(scope: Scope, one: Running) -> bool:
    if one.task is None:
        return scope.covers_bytes(one.raw)
    task = one.task
    if scope.asked.kind == "chat" and task.chat_id == scope.asked.chat_id and task.task_id in scope.tasks:
        return True
    # Of a task without a time: of a whole chat, what existed at the start is covered, and known by id.
    unknown = math.inf if scope.chosen else None
    at = unknown if task.submitted_at is None else task.submitted_at
    return scope.covers_text(task.chat_id, task.task_id, at, task.words)
