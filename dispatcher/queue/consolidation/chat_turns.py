"""A chat's turns get into the day store, and its session ends when it has grown too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import LockError

from dispatcher.queue.scripts import script_text
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.turns.records import Turn, turns_of
from shared.wire import keys
from shared.wire.json import record_of
from shared.wire.values import count_of

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.store.turns import StoredTurn

log = Logger()

#: Turns of a chat in one transaction.
TURNS_PER_BATCH = 200


def waiting(client: Any, chat_id: str, most: int = 0) -> tuple[list[str], list[Turn]]:
    """The oldest `most` (0: all) of the chat's turns that are not in the day store yet: their ids, and the turns that can be read."""
    ids = [raw.decode("utf-8", "replace") for raw in client.lrange(keys.unconsolidated(chat_id), 0, most - 1)]
    names = [keys.MEMORY_PREFIX + one for one in ids]
    return ids, turns_of(names, client.mget(names) if names else [], chat_id)


class ChatTurns:
    """Of all chats, for one dispatcher: `worker`."""

    def __init__(self, day: DayMemory, client: Redis, worker: str) -> None:
        self._day, self._worker = day, worker
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self._rotate = client.register_script(script_text("queue/rotate"))
        self._consolidated = client.register_script(script_text("queue/consolidated"))

    def store_alone(self, chat_id: str) -> None:
        """Store what waits, unless another dispatcher does, and end the session if that has grown too long."""
        with self.lease(chat_id) as mine:
            if mine and not self.store(chat_id):
                self._end_long_session(chat_id)

    def store(self, chat_id: str) -> int:
        """How many turns are left for the next round. Those that the night has flushed are in the release and need not be stored."""
        ids, turns = waiting(self._redis, chat_id, TURNS_PER_BATCH)
        if ids:
            self._day.upkeep.store_turns(turns)
            crash_point("consolidation:stored")
        names = [keys.unconsolidated(chat_id), keys.CHATS, keys.spent(chat_id)]
        return int(self._consolidated(keys=names, args=[chat_id, self._day.settings.session_tokens, *ids]))

    def _end_long_session(self, chat_id: str) -> None:
        """Summarise and end the chat's session if it has grown too long; all of its turns are in the store."""
        spent = self._redis.hgetall(keys.spent(chat_id))
        session = spent.get(b"session", b"").decode("utf-8", "replace")
        if count_of(spent.get(b"tokens")) < self._day.settings.session_tokens:
            return
        if self._redis.hexists(keys.BUSY, chat_id):  # its answer belongs in the summary; the script checks again
            return
        turns = self._day.turns.of_session(chat_id, session)
        if turns:
            self._day.upkeep.summarise_session(chat_id, session, [stored.turn for stored in turns])
            crash_point("consolidation:summarised")
        names = [keys.session(chat_id), keys.history(chat_id), keys.size(chat_id), keys.spent(chat_id), keys.BUSY]
        names.append(keys.unconsolidated(chat_id))
        if self._rotate(keys=names, args=[chat_id, session, *self._entries(chat_id, turns)]):
            log.info("a long session was summarised and ended", turns=len(turns))

    def _entries(self, chat_id: str, turns: list[StoredTurn]) -> list[bytes]:
        """Entries of the short list that are in the summary: those with the time and the text of its turns."""
        summarised = {(stored.turn.timestamp, stored.turn.content) for stored in turns}
        entries = ((raw, record_of(raw)) for raw in self._redis.lrange(keys.history(chat_id), 0, -1))
        return [raw for raw, entry in entries if (entry.get("timestamp"), entry.get("content")) in summarised]

    @contextmanager
    def lease(self, chat_id: str) -> Iterator[bool]:
        """Whether this dispatcher holds the lease on the chat."""
        lock = self._redis.lock(
            keys.consolidating(chat_id), timeout=keys.CONSOLIDATING_TTL_SECONDS, blocking=False, thread_local=False
        )
        mine = bool(lock.acquire(token=f"{self._worker}:{uuid4().hex[:8]}"))
        try:
            yield mine
        finally:
            if mine:
                with suppress(LockError):  # it took longer than the lease, and another dispatcher may hold the chat now
                    lock.release()
