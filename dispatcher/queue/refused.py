"""Tasks that are refused: what is stored of them, and what is left of one that is too large."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.turns.records import MOST_TASK_BYTES, RecordRefused, Task, dumps, loads_object, task_id_of

#: Why a task is refused if its id belongs to another one.
USED_ID = "its task_id was used before, for another message"

_CUT = re.compile(rb"hmem-too-large ([0-9]{1,15})\n(.*)\Z", re.DOTALL)
#: Both bots begin a task with its id. Further on, it might be part of a message.
_TASK_ID = re.compile(rb'\s*\{\s*"task_id"\s*:\s*"([A-Za-z0-9_-]{1,100})"')


@dataclass(frozen=True)
class TooLarge:
    """A task as `large_tasks.lua` leaves it in the queue, after a mark. `left`: lines with its beginning and end, empty if it was not read."""

    size: int  # bytes; a little more if it was not read
    left: bytes

    @classmethod
    def parse(cls, raw: bytes) -> TooLarge | None:
        """None for any other entry of the queue."""
        cut = _CUT.match(raw)
        return cls(int(cut[1]), cut[2]) if cut else None

    @property
    def task_id(self) -> str | None:
        named = _TASK_ID.match(self.left)
        return named[1].decode("ascii") if named else None

    @property
    def reason(self) -> str:
        return f"it has {self.size} bytes, and the limit is {MOST_TASK_BYTES}"


def dead_letter(raw: bytes, reason: str) -> bytes:
    """Dead letter JSON: the task's bytes (as text, else as base64; of one that is too large, what is left), the reason, the time."""
    record: dict[str, Any] = {"reason": reason, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    if large := TooLarge.parse(raw):
        raw = large.left
    try:
        record["task"] = raw.decode("utf-8")
    except UnicodeDecodeError:
        record["task_base64"] = base64.b64encode(raw).decode("ascii")
    return dumps(record)


def parsed_task(raw: bytes, lock: bytes) -> Task:
    """An entry of the queue as the task that it is. RecordRefused for something that is not a task, or too large."""
    if large := TooLarge.parse(raw):
        raise RecordRefused(large.reason)
    task = Task.parse(raw)
    # The lock keeps the order within a chat: a task whose chat Redis reads differently would run in parallel with another one of its chat.
    if lock.decode("utf-8", "replace") != task.chat_id:
        raise RecordRefused("chat_id is written in an ambiguous way")
    return task


def addressable_id(raw: bytes) -> str | None:
    """The id of a malformed task, if it has a valid one: then its sender gets an answer."""
    if large := TooLarge.parse(raw):
        return large.task_id
    with suppress(RecordRefused):
        return task_id_of(loads_object(raw).get("task_id"))
    return None
