"""What Redis shows of queue, conversations and turns, and which entries the journal lacks of it. Nothing here changes Redis."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatcher.second_copy.live import NewEntry, new_entry
from shared.delivery.journal import entries as kinds
from shared.delivery.journal.entries import packed
from shared.delivery.journal.state import CLAIMED, FINISHED, GONE, QUEUED, JournalState, KnownTask, hides, sha1_of
from shared.turns.records import Tombstone
from shared.wire import keys
from shared.wire.ids import TASK_ID
from shared.wire.json import RecordRefused, loads_object

#: Tasks of the queue that are followed: those among which `claim.lua` chooses.
MOST_TASKS = 10_000
#: Keys of one round trip.
BATCH = 200
LUA = Path(__file__).parent / "lua"


@dataclass
class QueueLook:
    """One moment. `flights`: (worker, token, task)."""

    mark: int | None
    night: int | None
    queued: list[bytes]
    flights: list[tuple[str, str, bytes]]
    tombstones: list[bytes]
    waiting: dict[str, bytes]
    life: bytes  # which time of filling a lost Redis made this one; empty if it was never lost


def script(client: Any, name: str) -> Any:
    return client.register_script((LUA / f"{name}.lua").read_text(encoding="utf-8"))


def look_at_queue(client: Any, looking: Any, journal: str, task_bytes: int, first_tombstone: int) -> QueueLook:
    """`looking` is the script `look`."""
    workers = sorted(raw.decode("utf-8", "replace") for raw in client.smembers(keys.WORKERS))
    names = [keys.JOURNAL, keys.NIGHT_LAST, keys.TASKS, keys.TOMBSTONES, keys.BOT_WAITING]
    names += [keys.inflight(worker) for worker in workers]
    mark, night, queued, flights, stones, waiting, life = looking(
        keys=names, args=[journal, MOST_TASKS, task_bytes, first_tombstone]
    )
    found = [
        (worker, flat[at].decode("utf-8", "replace"), flat[at + 1])
        for worker, flat in zip(workers, flights, strict=True)
        for at in range(0, len(flat), 2)
    ]
    known = {waiting[at].decode("utf-8", "replace"): waiting[at + 1] for at in range(0, len(waiting), 2)}
    return QueueLook(_number(mark), _run(night), queued, found, stones, known, life)


def _number(raw: bytes) -> int | None:
    return int(raw) if raw.isdigit() else None


def _run(raw: bytes) -> int | None:
    try:
        found = loads_object(raw).get("run") if raw else None
    except RecordRefused:
        return None
    return found if isinstance(found, int) else None


def name_of_task(raw: bytes) -> tuple[str, str | None]:
    """(task id, chat); of one that cannot be read a name that follows from its bytes."""
    try:
        record = loads_object(raw)
    except RecordRefused:
        return f"raw-{sha1_of(raw)}", None
    task_id, chat = record.get("task_id"), record.get("chat_id")
    name = task_id if isinstance(task_id, str) and TASK_ID.match(task_id) else f"raw-{sha1_of(raw)}"
    return name, str(chat) if isinstance(chat, int | str) and not isinstance(chat, bool) else None


def task_entry(name: str, chat: str | None, state: str, **data: Any) -> NewEntry:
    return new_entry(kinds.TASK, chat, task=name, state=state, **data)


def claimed_entry(raw: bytes, worker: str, token: str) -> NewEntry:
    name, chat = name_of_task(raw)
    return task_entry(name, chat, CLAIMED, raw=packed(raw), worker=worker, token=token)


@dataclass
class TaskFollower:
    """Which tasks have come and gone. What is seen once may be a task on its way from one place to another: so absence counts the second time."""

    missing: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)

    def entries(self, client: Any, look: QueueLook, state: JournalState) -> list[NewEntry]:
        found, seen, back = list[NewEntry](), set[str](), set[str]()
        for raw in look.queued:
            name, chat = name_of_task(raw)
            known = state.tasks.get(name)
            seen.add(name)
            if known is None:
                found.append(task_entry(name, chat, QUEUED, raw=packed(raw)))
            elif not known.open:
                back.add(name)
                if name in self.again and not client.exists(keys.done(name)):  # /retry, or hmem dead retry
                    found.append(task_entry(name, chat, QUEUED, raw=packed(raw), again=True))
        for worker, token, raw in look.flights:
            name, _ = name_of_task(raw)
            seen.add(name)
            known = state.tasks.get(name)
            if known is None or (known.open and (known.worker, known.token) != (worker, token)):
                found.append(claimed_entry(raw, worker, token))
        gone = {name for name, one in state.tasks.items() if one.open and name not in seen}
        found += self._ended(client, gone & self.missing, state)
        found += _waiting(client, look, state)
        self.missing, self.again = gone, back
        return found

    def _ended(self, client: Any, names: Iterable[str], state: JournalState) -> Iterator[NewEntry]:
        for name in sorted(names):
            chat = state.tasks[name].chat
            digest = client.get(keys.done(name))
            if digest is None:
                yield task_entry(name, chat, GONE)
            else:
                yield task_entry(name, chat, FINISHED, digest=digest.decode("ascii", "replace"))


def _waiting(client: Any, look: QueueLook, state: JournalState) -> Iterator[NewEntry]:
    """Where answers go, and that they were delivered: the bot removes a result that it has shown."""
    unsent = [(name, one) for name, one in state.tasks.items() if not one.open and not one.delivered]
    with client.pipeline(transaction=False) as pipe:
        for name, _ in unsent:
            pipe.strlen(keys.result(name))
        sizes = pipe.execute(raise_on_error=False) if unsent else []
    delivered = {name for (name, _), size in zip(unsent, sizes, strict=True) if size == 0}
    for name, one in list(state.tasks.items()):
        if name in delivered:
            yield task_entry(name, one.chat, one.state, delivered=True)
        elif not one.delivered and (raw := look.waiting.get(name)) is not None and raw != one.waiting:
            yield _with_waiting(name, one, raw)


def _with_waiting(name: str, one: KnownTask, raw: bytes) -> NewEntry:
    return task_entry(name, one.chat, one.state, waiting=packed(raw))


def turn_entries(
    client: Any, names: Collection[bytes], state: JournalState, tombstones: Collection[Tombstone]
) -> Iterator[NewEntry]:
    """Turns under these keys that the journal lacks, or has in another version. One that is to be forgotten does not get in."""
    listed = sorted(names)
    for start in range(0, len(listed), BATCH):
        batch = listed[start : start + BATCH]
        for name, value in zip(batch, client.mget(batch), strict=True):
            key = name.decode("utf-8", "surrogateescape")
            known = state.turns.get(key)
            if value is None or (known is not None and known.sha1 == sha1_of(value)):
                continue
            if not hides(tombstones, key, value):
                yield turn_entry(key, value)


def turn_entry(key: str, value: bytes) -> NewEntry:
    return new_entry(kinds.TURN, _chat_of(value), key=key, value=packed(value))


def _chat_of(value: bytes) -> str | None:
    try:
        chat = loads_object(value).get("chat_id")
    except RecordRefused:
        return None
    return str(chat) if isinstance(chat, int | str) and not isinstance(chat, bool) else None


def scan(client: Any) -> tuple[set[bytes], set[str]]:
    """(keys of turns, chats with a conversation)."""
    turns, chats = set[bytes](), set[str]()
    for raw in client.scan_iter(match=keys.FOLLOWED, count=5000):
        if raw.startswith(keys.MEMORY_PREFIX.encode()):
            turns.add(raw)
            continue
        name = raw.decode("utf-8", "replace")
        chats |= {name.removeprefix(one) for one in keys.SESSION_PREFIXES if name.startswith(one)}
    return turns, chats


def conversation_entries(client: Any, chats: Collection[str], state: JournalState) -> Iterator[NewEntry]:
    """What has changed in the conversations of these chats."""
    listed = sorted(chats)
    for start in range(0, len(listed), BATCH):
        batch = listed[start : start + BATCH]
        reads = [(chat, *one) for chat in batch for one in _reads(chat)]
        with client.pipeline(transaction=False) as pipe:
            for _, kind, name in reads:
                {"string": pipe.get, "list": _whole(pipe), "hash": pipe.hgetall}[kind](name)
                pipe.pttl(name)
            answers = pipe.execute(raise_on_error=False)
        for (chat, kind, name), value, left in zip(reads, answers[::2], answers[1::2], strict=True):
            if entry := _key_entry(chat, kind, name, value, left, state):
                yield entry


def _whole(pipe: Any) -> Any:
    return lambda name: pipe.lrange(name, 0, -1)


def _reads(chat: str) -> tuple[tuple[str, str], ...]:
    return (
        ("string", keys.session(chat)),
        ("list", keys.history(chat)),
        ("string", keys.size(chat)),
        ("hash", keys.spent(chat)),
    )


def _key_entry(chat: str, kind: str, name: str, value: Any, left: Any, state: JournalState) -> NewEntry | None:
    if isinstance(value, Exception) or isinstance(left, Exception):  # a key of another type
        return None
    known = state.keys.get(name)
    if not value:
        return new_entry(kinds.KEY, chat, key=name, type=None) if known else None
    until = time.time() + left / 1000 if left > 0 else None
    now: Any = packed(value) if kind == "string" else [packed(one) for one in value]
    if kind == "hash":
        now = [[packed(one), packed(other)] for one, other in sorted(value.items())]
    if known is not None and known.type == kind and known.value == now and not _moved(known.until, until):
        return None
    more: dict[str, Any] = {"value": now}
    same = kind == "list" and known is not None and known.type == kind
    if same and known is not None and (added := _added(known.value, now)) is not None:
        more = {"append": added, "before": len(known.value), "length": len(now)}
    return new_entry(kinds.KEY, chat, key=name, type=kind, until=until, **more)


def _moved(before: float | None, until: float | None) -> bool:
    """Whether a key expires at another time by now; what a look measures differs a little each time."""
    if before is None or until is None:
        return before is not until
    return abs(until - before) > max(1.0, min(60.0, (until - time.time()) / 10))


def _added(before: list[Any], now: list[Any]) -> list[Any] | None:
    """What was appended to a list that may have lost its oldest entries since; None if it is another one."""
    for lost in range(len(before) + 1):
        rest = before[lost:]
        if rest and rest == now[: len(rest)]:
            return now[len(rest) :]
    return None
