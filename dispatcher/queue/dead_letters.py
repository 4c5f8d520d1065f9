"""The owner's actions on dead letters: list them, put them back where they came from, or remove them.

A dead letter is a task that could not be processed or that crashed its worker too often, or the tags of an answer that could not be carried out
(`dead_letter` in refused.py writes both). It is named by a hash of its bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from redis import Redis, ResponseError

from dispatcher.memory.typed.tags import AnswerTags
from dispatcher.queue.refused import USED_ID
from dispatcher.queue.scripts import script_text
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.turns.records import MOST_TASK_BYTES, RecordRefused, Task, loads_object
from shared.turns.signed import secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_of, moment_of
from shared.wire.json import record_of

#: Hex digits of a letter's name, and how many of them are enough to select it.
NAME_DIGITS, FEWEST_DIGITS = 12, 4
#: Letters that are read in one call: each may be as large as a task.
WINDOW = 100
#: Ids of tasks that our bot has queued.
_OUR_BOT = re.compile(r"tg-[0-9]+-[0-9]+")

BACK = "is back in the queue"
ANSWERED_THERE = "our bot sends the answer to the chat"
ANSWERED_NOWHERE = "no bot waits for the answer any more: it is stored as a turn, and in {key} for 24 hours, but is not sent to the chat"
TAGS_BACK = "the dispatcher carries out its tags in the next round"


@dataclass(frozen=True)
class DeadLetter:
    """One entry of the list. `content` is the task, or the record of the tags, as far as it was stored; `at` is in POSIX seconds."""

    raw: bytes
    reason: str
    at: float | None
    content: bytes

    @classmethod
    def parse(cls, raw: bytes) -> DeadLetter:
        """Parse any entry of the list; an entry that is not a letter of ours becomes its own content."""
        try:
            record = loads_object(raw)
        except RecordRefused:
            return cls(raw, "it was not written by the dispatcher", None, raw)
        content = str(record.get("task", "")).encode("utf-8", "replace")
        if "task_base64" in record:
            with suppress(ValueError):
                content = base64.b64decode(str(record["task_base64"]))
        return cls(raw, str(record.get("reason", "no reason was recorded")), moment_of(record.get("at")), content)

    @cached_property
    def name(self) -> str:
        return hashlib.sha1(self.raw, usedforsecurity=False).hexdigest()[:NAME_DIGITS]

    @cached_property
    def task(self) -> Task | None:
        """None if it is not a task that could be answered."""
        with suppress(RecordRefused):
            return Task.parse(self.content)
        return None

    @cached_property
    def tags(self) -> list[str]:
        """The tags of an answer as text; empty for a task."""
        with suppress(RecordRefused, KeyError, ValueError, TypeError):
            return [f"{tag.kind}: {tag.text}" for tag in AnswerTags.parse(loads_object(self.content)).tags]
        return []

    @property
    def chat_id(self) -> str | None:
        return self._named("chat_id")

    @property
    def task_id(self) -> str | None:
        return self._named("task_id")

    def _named(self, field: str) -> str | None:
        value = record_of(self.content).get(field)
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None

    @property
    def text(self) -> str:
        """The message, or else the tags or the raw content."""
        if self.task:
            return self.task.message
        return "; ".join(self.tags) or self.content.decode("utf-8", "replace")

    def why_not(self) -> str | None:
        """Why it cannot be retried, or None."""
        if self.tags:
            return None
        if self.reason == USED_ID:
            return "its task_id belongs to another message. Send the message again in the chat"
        try:
            Task.parse(self.content)
        except RecordRefused as error:
            return f"it is not a task that could be answered ({error}). Check it (hmem dead), then drop it"
        if len(self.content) > MOST_TASK_BYTES:
            return f"it has {len(self.content)} bytes, and the limit is {MOST_TASK_BYTES}"
        return None

    def to_json(self) -> dict[str, Any]:
        named = {"id": self.name, "at": self.at, "reason": self.reason}
        kind = "task" if self.task else "tags" if self.tags else "unreadable"
        return named | {"chat_id": self.chat_id, "task_id": self.task_id, "kind": kind, "text": self.text}


class DeadLetters:
    """The list in Redis. A task that is too large is not retried, since it would be refused again."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._redis: Any = client
        self._secret = secret_in(settings)
        self._retry = client.register_script(script_text("queue/retry"))

    def all(self) -> Iterator[DeadLetter]:
        """Oldest first, each once."""
        seen, start = set[str](), 0
        while raws := self._window(start):
            for letter in map(DeadLetter.parse, raws):
                if letter.name not in seen:
                    seen.add(letter.name)
                    yield letter
            start += len(raws)

    def _window(self, start: int) -> list[bytes]:
        try:
            return list(self._redis.lrange(keys.DEAD, start, start + WINDOW - 1))
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            raise InvalidInput(
                f"{keys.DEAD} in Redis is not a list: another program has written there. Move it away (redis-cli RENAME)."
            ) from error

    def chosen(self, names: Sequence[str], *, every: bool) -> list[DeadLetter]:
        """All, or those whose ids begin with `names`; InvalidInput for an id that matches none or several."""
        if every == bool(names):
            raise InvalidInput("Give the ids of dead letters (hmem dead shows them), or --all.")
        letters = list(self.all())
        return letters if every else list(dict.fromkeys(_named(letters, name) for name in names))

    def retry(self, letter: DeadLetter) -> str:
        """Put it back; returns what happens to it, as a clause. InvalidInput with the reason if that is not possible."""
        if why := letter.why_not():
            raise InvalidInput(f"{letter.name} is not retried: {why}.")
        task, task_id = letter.task, letter.task_id or ""
        bot = keys.bot_waiting(bot_of(task.chat_id if task else ""))
        record = _waiting(task)
        waiting = sign_record(self._secret, f"{bot} {task_id}", record) if record else b""
        state = [keys.done(task_id), keys.attempts(task_id), keys.result(task_id), bot, keys.cancel(task_id)]
        names = [keys.DEAD, keys.TASKS if task else keys.TAGS, *state]
        arguments: list[bytes | str] = [letter.raw, letter.content, task.digest if task else "", task_id, waiting]
        answer = int(self._retry(keys=names, args=arguments))
        if answer == 0:
            raise InvalidInput(
                f"{letter.name} is no longer a dead letter: it was retried or dropped meanwhile. See hmem dead."
            )
        if answer < 0:
            raise InvalidInput(
                f"{letter.name} is not retried: its task_id belongs to another message. Send the message again in the chat."
            )
        if task is None:
            return f"{BACK}: {TAGS_BACK}"
        awaited = waiting or self._redis.hget(bot, task_id) is not None
        return f"{BACK}: {ANSWERED_THERE if awaited else ANSWERED_NOWHERE.format(key=keys.result(task_id))}"

    def drop(self, letter: DeadLetter) -> bool:
        """Whether it existed."""
        return bool(self._redis.lrem(keys.DEAD, 0, letter.raw))


def _named(letters: Sequence[DeadLetter], name: str) -> DeadLetter:
    found = [one for one in letters if one.name.startswith(name.lower())] if len(name) >= FEWEST_DIGITS else []
    if len(found) != 1:
        which = "several dead letters" if found else "no dead letter"
        raise InvalidInput(f"{name!r} matches {which}. hmem dead shows the ids.")
    return found[0]


def _waiting(task: Task | None) -> dict[str, Any]:
    """A waiting record for our bot, which has dropped its own after delivering the apology. The answer is a new message, in a group outside
    of topics. None for a task of another bot or of `hmem talk`, which no longer wait for it."""
    if task is None or not _OUR_BOT.fullmatch(task.task_id) or not re.fullmatch(r"-?[0-9]+", task.chat_id):
        return {}
    return {"chat": task.chat_id, "at": time.time()} | ({"user": task.user_id} if task.user_id else {})
