"""What Redis lacks goes back from the journal: after its loss, or when an older copy was put in its place. It may be done again.

Tombstones first, so that nothing forgotten is read; then tasks that were finished, which leave queue and dead dispatchers and are never answered
again; turns; conversations; and last the tasks without an answer, in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from dispatcher.second_copy.look import MOST_TASKS, QueueLook, look_at_queue, name_of_task, script
from shared.delivery.journal.entries import unpacked
from shared.delivery.journal.state import CLAIMED, FINISHED, JournalState, KnownKey, KnownTask, open_tasks
from shared.system.faults import crash_point
from shared.system.processes import died_here
from shared.turns.records import RecordRefused, Tombstone, turn_key
from shared.wire import keys

log = structlog.get_logger()

#: A task is read up to this size here, whatever TASK_BYTES is by now.
MOST_BYTES = 64 << 20


@dataclass
class DayPutBack:
    """How many of each were put back; `removed`: finished tasks that an older copy had queued or in flight."""

    turns: int = 0
    tasks: int = 0
    answers: int = 0
    removed: int = 0
    conversations: int = 0
    tombstones: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)


class Putting:
    """One time. `state` is a whole state; `add_tombstone` makes one durable in the state directory."""

    def __init__(self, client: Any, state: JournalState, now: float) -> None:
        self._redis, self._state, self._now = client, state, now
        self._turn, self._task = script(client, "put_turn"), script(client, "put_task")
        self.done = DayPutBack()

    def all(self, known: Collection[Tombstone], add_tombstone: Callable[[Tombstone], None]) -> DayPutBack:
        self.tombstones(known, add_tombstone)
        look = look_at_queue(self._redis, script(self._redis, "look"), self._state.journal or "", MOST_BYTES, 0)
        self._announce(look)
        self._finished(look)
        crash_point("journal:half-put-back")
        self._turns()
        self._conversations()
        self._open(look)
        log.warning("what Redis lacked was put back from the journal", **self.done.to_json())
        return self.done

    def tombstones(self, known: Collection[Tombstone], add: Callable[[Tombstone], None]) -> None:
        """Those that the state directory lacks."""
        there = {one.to_json() for one in known}
        for stone in self._state.tombstones.values():
            if stone.to_json() not in there:
                add(stone)
                self.done.tombstones += 1

    def _announce(self, look: QueueLook) -> None:
        there = set(look.tombstones)
        for raw in self._state.tombstones:
            if raw not in there:
                self._redis.rpush(keys.TOMBSTONES, raw)

    def _finished(self, look: QueueLook) -> None:
        closed = {name: one for name, one in self._state.tasks.items() if not one.open}
        for name, one in closed.items():
            if one.state == FINISHED:
                self.done.answers += self._put_task(name, one, "finished")
            if one.delivered and name in look.waiting:
                self._redis.hdel(keys.BOT_WAITING, name)
        for raw in look.queued:
            if name_of_task(raw)[0] in closed:
                self.done.removed += int(self._redis.lrem(keys.TASKS, 0, raw))
        for worker, token, raw in look.flights:
            name, chat = name_of_task(raw)
            if name in closed:
                self._leave_flight(worker, token, chat)
                self.done.removed += 1

    def _leave_flight(self, worker: str, token: str, chat: str | None) -> None:
        self._redis.hdel(keys.inflight(worker), token)
        if chat is not None and self._redis.hget(keys.BUSY, chat) == token.encode():
            self._redis.hdel(keys.BUSY, chat)

    def _turns(self) -> None:
        for key, known in self._state.turns.items():
            if self._state.covered(key, known):
                continue
            try:
                task_id, role = turn_key(key.encode("utf-8", "surrogateescape"))
            except RecordRefused:
                task_id = role = ""
            chat = known.chat if task_id else None
            self.done.turns += int(
                self._turn(
                    keys=[
                        key.encode("utf-8", "surrogateescape"),
                        keys.unconsolidated(chat or keys.EVERY_CHAT),
                        keys.CHATS,
                    ],
                    args=[known.value, f"{task_id}:{role}", chat or "", keys.UNCONSOLIDATED_LENGTH],
                )
            )

    def _conversations(self) -> None:
        for name, known in self._state.keys.items():
            left = None if known.until is None else known.until - self._now
            if (left is None or left > 0) and not self._same(name, known):
                self._write_key(name, known, left)
                self.done.conversations += 1

    def _same(self, name: str, known: KnownKey) -> bool:
        if known.type == "string":
            return bool(self._redis.get(name) == unpacked(known.value))
        if known.type == "list":
            return bool(self._redis.lrange(name, 0, -1) == [unpacked(one) for one in known.value])
        found = self._redis.hgetall(name)
        return bool(found == {unpacked(one): unpacked(other) for one, other in known.value})

    def _write_key(self, name: str, known: KnownKey, left: float | None) -> None:
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(name)
            if known.type == "string":
                pipe.set(name, unpacked(known.value))
            elif known.type == "list" and known.value:
                pipe.rpush(name, *(unpacked(one) for one in known.value))
            elif known.value:
                pipe.hset(name, mapping={unpacked(one): unpacked(other) for one, other in known.value})
            if left is not None:
                pipe.pexpire(name, int(left * 1000) + 1)
            pipe.execute()

    def _open(self, look: QueueLook) -> None:
        """A claimed task goes back to its dispatcher if that lives, else to the queue."""
        there = {name_of_task(raw)[0] for raw in look.queued}
        flying = {name_of_task(raw)[0]: (worker, token) for worker, token, raw in look.flights}
        queued = int(self._redis.llen(keys.TASKS))
        for name, one in open_tasks(self._state):
            if name in there or (queued > MOST_TASKS and self._redis.lpos(keys.TASKS, one.raw) is not None):
                continue
            if name in flying:
                if flying[name] == (one.worker, one.token):
                    continue
                self._leave_flight(*flying[name], one.chat)  # by an earlier claim: that dispatcher is gone
            alive = one.state == CLAIMED and not died_here(one.worker)
            self.done.tasks += self._put_task(name, one, "claimed" if alive else "queued")

    def _put_task(self, name: str, one: KnownTask, what: str) -> int:
        names = [keys.done(name), keys.result(name), keys.BOT_WAITING, keys.TASKS, keys.inflight(one.worker or "none")]
        names += [keys.BUSY, keys.WORKERS, keys.lease(one.worker or "none")]
        age = max(0, int(self._now - one.at))
        seconds = [max(1, keys.DONE_TTL_SECONDS - age), max(1, keys.RESULT_TTL_SECONDS - age)]
        values: list[Any] = [what, one.digest, seconds[0], b"" if one.delivered else one.result, seconds[1]]
        values += [one.waiting, name, one.raw, one.token, one.chat or "", one.worker, keys.LEASE_TTL_SECONDS]
        return int(self._task(keys=names, args=values))
