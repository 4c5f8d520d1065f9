"""Redis: found by reading, removed by value, so that a value written meanwhile remains.

Keys with only ids, hashes or numbers remain: which tasks are done, which chats were served, which answers are awaited, the total counters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from redis import Redis

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader, number_of
from dispatcher.chat_data.forget.request import Scope
from dispatcher.chat_data.hooks import redis_entries
from dispatcher.memory.tombstones import FORGOTTEN
from dispatcher.queue.dead_letters import DeadLetter
from dispatcher.queue.scripts import script_text
from shared.hooks import feature_modules, features
from shared.text.translations import in_every_language
from shared.turns.events import Event
from shared.turns.message_origin import Origin
from shared.turns.records import RecordRefused, Task, Turn, dumps
from shared.turns.signed import Result
from shared.wire import keys
from shared.wire.handed_over import ImportHandOver
from shared.wire.ids import bot_names
from shared.wire.json import record_of
from shared.wire.key_table import chat_tables

_TEXTS = re.compile(rb'"(?:content|message|command|text|output)"\s*:\s*"((?:[^"\\]|\\.)*)')


class RedisLayer:
    """Requires a client that returns bytes."""

    def __init__(self, client: Redis) -> None:
        self._redis: Any = client
        self._reader = RedisReader(client)
        self._erase = client.register_script(script_text("chat_data/forget/layers/erase"))

    def find(self, scope: Scope) -> Iterator[RedisEntry]:
        """Everything covered, except tasks that are queued or in flight (tasks.py)."""
        everywhere = (
            self._turns, self._events, self._results, self._partial_answers, self._dead_letters, self._tags, self._outbox,
            self._bot_words, self._arriving, self._imports,
        )  # fmt: skip
        for find in everywhere:
            yield from find(scope)
        for found in features().ask(redis_entries, scope=scope, reader=self._reader):
            yield from found
        if scope.whole_chat is not None:
            yield from self._counters(scope.whole_chat)
            yield from self._chosen(scope.whole_chat)
        for chat_id in scope.chats:
            yield from self._conversation(chat_id)
            yield from self._teaching(scope, chat_id)
            yield from self._unconsolidated(scope, chat_id)
            yield from self._marks(scope, chat_id)

    def remove(self, found: Iterable[RedisEntry]) -> dict[str, int]:
        """Remove the entries; returns layer → how many."""
        removed = Counter[str]()
        for one in found:
            removed[one.layer] += self._remove(one)
        return removed

    def _remove(self, one: RedisEntry) -> int:
        """How many were still there."""
        if one.how == "value":
            return int(self._erase(keys=[one.key], args=[one.value]))
        if one.how == "entry":
            return int(self._redis.lrem(one.key, 0, one.value))
        return int(self._redis.hdel(one.key, one.name) if one.how == "field" else self._redis.delete(one.key))

    def turns(self) -> Iterator[tuple[bytes, bytes]]:
        return self._reader.scan(f"{keys.MEMORY_PREFIX}*")

    def _turns(self, scope: Scope) -> Iterator[RedisEntry]:
        for key, raw in self.turns():
            try:
                turn = Turn.parse(key, raw)
            except RecordRefused:
                if scope.covers_bytes(raw):
                    yield RedisEntry("redis: turns that cannot be read", key, raw, "value", quoted(raw))
            else:
                if scope.covers(turn):
                    yield RedisEntry("redis: turns", key, raw, "value", (turn.words,))

    def _events(self, scope: Scope) -> Iterator[RedisEntry]:
        """What waits for the archive of memories and rows of features, and of what a chat has set."""
        for key, raw in self._reader.scan(f"{keys.EVENT_PREFIX}*"):
            try:
                event = Event.parse(key, raw)
                covered, texts = scope.covers_event(event), tuple(event.texts)
            except RecordRefused:
                covered, texts = scope.covers_bytes(raw), quoted(raw)
            if covered:
                yield RedisEntry("redis: events", key, raw, "value", texts)

    def _imports(self, scope: Scope) -> Iterator[RedisEntry]:
        """Imports for another host's night, whole: they are compressed, so neither words nor a chat's part is searched for in them. Turns that are
        named by id are left to the night, which imports none that were erased."""
        for one in ImportHandOver(self._redis).all() if scope.asked.kind != "turn" else ():
            everywhere = scope.asked.kind == "matching" and any(map(scope.asked.concerns, one.chats))
            if scope.asked.kind == "import":  # what became of it
                covered = one.name == scope.asked.batch and not one.waits
            else:
                covered = bool(set(one.chats) & set(scope.chats)) or (one.waits and everywhere)
            if covered:
                layer = f"redis: import {one.name}"
                yield RedisEntry(layer, keys.IMPORTS.encode(), b"", "field", tuple(one.files), one.name.encode())
                if one.waits:
                    yield RedisEntry(f"{layer}, content", one.key.encode(), b"", "key")

    def _results(self, scope: Scope) -> Iterator[RedisEntry]:
        for key, raw in self._reader.scan(f"{keys.result('')}*"):
            task_id = key.decode("utf-8", "replace").removeprefix(keys.result(""))
            try:
                output = Result.parse(raw).output
            except RecordRefused:
                output = " ".join(quoted(raw))
            everywhere = scope.asked.chat_id is None and scope.asked.holds(output)
            if output not in in_every_language(FORGOTTEN) and (task_id in scope.tasks or everywhere):
                yield RedisEntry("redis: answers", key, raw, "value", (output,))

    def _partial_answers(self, scope: Scope) -> Iterator[RedisEntry]:
        """What is written of answers: all of these chats, as a running answer may repeat what is forgotten."""
        for key, raw in self._reader.scan(f"{keys.partial('')}*"):
            record = record_of(raw)
            chat_id, text = record.get("chat_id"), str(record.get("text", ""))
            if chat_id in scope.chats or chat_id is None or (scope.asked.chat_id is None and scope.asked.holds(text)):
                yield RedisEntry("redis: answers being written", key, b"", "key")

    def _dead_letters(self, scope: Scope) -> Iterator[RedisEntry]:
        for letter in map(DeadLetter.parse, self._reader.entries(keys.DEAD)):
            task = letter.content or letter.raw
            if _covers_task(scope, task, letter.at):
                yield RedisEntry("redis: dead letters", keys.DEAD.encode(), letter.raw, "entry", _words(task))

    def _tags(self, scope: Scope) -> Iterator[RedisEntry]:
        for raw in self._reader.entries(keys.TAGS):
            if scope.covers_bytes(raw):
                texts = [str(tag.get("text", "")) for tag in record_of(raw).get("tags", []) if isinstance(tag, dict)]
                yield RedisEntry("redis: tags", keys.TAGS.encode(), raw, "entry", tuple(texts))

    def _outbox(self, scope: Scope) -> Iterator[RedisEntry]:
        for key in map(keys.outbox, bot_names()):
            for raw in self._reader.entries(key):
                record = record_of(raw)
                text, at = str(record.get("text", "")), number_of(record.get("created_at"))
                chat_id = str(record.get("chat_id", ""))
                if scope.covers_text(chat_id, "", at, text) or _is_digest_of(record, chat_id, scope):
                    texts = () if record.get("digest") is True else (text,)
                    yield RedisEntry("redis: outbox", key.encode(), raw, "entry", texts)

    def _bot_words(self, scope: Scope) -> Iterator[RedisEntry]:
        """Texts of the bot, and the addresses of answers that will no longer come."""
        for key, name, raw in self._fields(keys.bot_waiting):
            record = record_of(raw)
            text, at = record.get("text"), number_of(record.get("at"))
            task_id = name.decode("utf-8", "replace")
            chat_id = str(record.get("chat", ""))
            covered = scope.covers_text(chat_id, task_id, at, str(text or ""))
            if not (covered or _is_digest_of(record, chat_id, scope)):
                continue
            if text or self._answered(task_id):
                texts = (str(text),) if text and record.get("digest") is not True else ()
                yield RedisEntry("redis: bot", key.encode(), raw, "field", texts, name)

    def _fields(self, key_of: Callable[[str], str]) -> Iterator[tuple[str, bytes, bytes]]:
        """(key, name, value) in such a hash of each of our bots."""
        return ((key, *field) for key in map(key_of, bot_names()) for field in self._reader.fields(key))

    def _arriving(self, scope: Scope) -> Iterator[RedisEntry]:
        """Messages whose files the bot is fetching."""
        for key, name, raw in self._fields(keys.bot_arriving):
            record = record_of(raw)
            task, at = dumps(record.get("task")), number_of(record.get("at"))
            if _covers_task(scope, task, at):
                yield RedisEntry("redis: bot", key.encode(), raw, "field", _words(task), name)

    def _answered(self, task_id: str) -> bool:
        """Whether the task is done and the bot has taken its answer: nothing more will come."""
        return bool(self._redis.exists(keys.done(task_id))) and not self._redis.exists(keys.result(task_id))

    def _conversation(self, chat_id: str) -> Iterator[RedisEntry]:
        history, *others = keys.conversation(chat_id)
        for entry in self._reader.entries(history):
            record = record_of(entry)
            texts = (str(record.get("content", "")), *Origin.parse(record).texts)
            yield RedisEntry("redis: conversation", history.encode(), entry, "entry", texts)
        for name in others:
            if self._redis.exists(name):
                yield RedisEntry("redis: conversation", name.encode(), b"", "key")

    def _teaching(self, scope: Scope, chat_id: str) -> Iterator[RedisEntry]:
        """What h-cli's bot stores of a conversation that teaches it: texts without ids and times."""
        key = keys.teach_turns(chat_id)
        for entry in self._reader.entries(key):
            text = str(record_of(entry).get("content", ""))
            if scope.covers_text(chat_id, "", None, text):
                yield RedisEntry("redis: teaching", key.encode(), entry, "entry", (text,))

    def _counters(self, chat_id: str) -> Iterator[RedisEntry]:
        """Whole keys of the chat that features have."""
        for module in feature_modules("keys"):
            for pattern in getattr(module, "CHAT_KEYS", ()):
                for name in self._redis.scan_iter(match=pattern.format(chat_id=_escaped(chat_id)), count=1000):
                    yield RedisEntry("redis: counters", name, b"", "key")

    def _chosen(self, chat_id: str) -> Iterator[RedisEntry]:
        """What the chat has set for itself."""
        name = keys.chat_settings(chat_id)
        if self._reader.fields(name):
            yield RedisEntry("redis: settings of the chat", name.encode(), b"", "key")
        tables = {"hold": keys.HOLDS} | {what: table.key for what, table in chat_tables().items()}
        for what, table in tables.items():
            if table == keys.MOVED:  # two numbers and no word: without it the bot would not know the supergroup
                continue
            value = dict(self._reader.fields(table)).get(chat_id.encode())
            if value is not None:
                yield RedisEntry(f"redis: {what}s", table.encode(), value, "field", name=chat_id.encode())

    def _unconsolidated(self, scope: Scope, chat_id: str) -> Iterator[RedisEntry]:
        """Ids of covered turns, and of turns that no longer exist."""
        key = keys.unconsolidated(chat_id)
        for entry in self._reader.entries(key):
            name = keys.MEMORY_PREFIX.encode() + entry
            (raw,) = self._redis.mget([name])
            with suppress(RecordRefused):
                if raw is None or scope.covers(Turn.parse(name, raw)):
                    yield RedisEntry("redis: unconsolidated", key.encode(), entry, "entry")

    def _marks(self, scope: Scope, chat_id: str) -> Iterator[RedisEntry]:
        """What the bot stores of messages to recognise edits: a hash of the text."""
        shape = re.compile(re.escape(keys.bot_seen(f"{chat_id}-")) + r"\d+")
        for key, raw in self._reader.scan(keys.bot_seen(f"{_escaped(chat_id)}-*")):
            if shape.fullmatch(key.decode("utf-8", "replace")) and str(record_of(raw).get("task")) in scope.tasks:
                yield RedisEntry("redis: bot", key, raw, "value")


def _covers_task(scope: Scope, raw: bytes, at: float | None) -> bool:
    try:
        task = Task.parse(raw)
    except RecordRefused:
        return scope.covers_bytes(raw, at)
    return scope.covers_text(task.chat_id, task.task_id, task.submitted_at or at, task.words)


def _is_digest_of(record: dict[str, Any], chat_id: str, scope: Scope) -> bool:
    """Whether it is an unsent digest of a chat of which something is forgotten: it repeats turns in other words, so all of it goes. The scan does
    not search for its words, which the other turns have, too, and the digests of other chats."""
    return record.get("digest") is True and chat_id in scope.chats


def _words(raw: bytes) -> tuple[str, ...]:
    try:
        return (Task.parse(raw).words,)
    except RecordRefused:
        return quoted(raw)


def quoted(raw: bytes) -> tuple[str, ...]:
    """The texts in bytes that are not a valid record."""
    return tuple(_text(text) for text in _TEXTS.findall(raw))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _escaped(chat_id: str) -> str:
    """A chat id, escaped for a pattern of SCAN."""
    return re.sub(r"([\\*?\[\]^])", r"\\\1", chat_id)
