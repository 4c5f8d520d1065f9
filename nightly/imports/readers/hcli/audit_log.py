"""The audit log of h-cli, JSON lines: `task_started` with the question, `task_completed` with the answer, joined by the task's id.

The ids are those of the wire, so recorded turns are recognised. Some versions of h-cli write no event name: then the fields identify the
event, a `user_message` or an `output`. Of several lines with one task's message (queued, started) the first counts. The log names no chat,
only the user. In a private chat both have the same number, so lines of other users are left out if `--chat` names a private chat.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, lines_of, time_of
from nightly.imports.containers.opening import Export
from nightly.imports.formats import Reader, Source
from nightly.imports.recognition import first_records
from nightly.night.folder import scratch_database
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused, Turn, chat_id_of, loads_object, task_id_of, user_id_of

_ASKED = ("task_queued", "task_started")
_DONE = "task_completed"
#: What a line of a task has besides its id and its output, which other programs' logs have, too.
_OF_TASKS = {"user_message", "event", "output_length"}
#: What h-cli writes if it has no answer.
_NO_ANSWER = re.compile(r"\(no output from Claude\)|\(error: [^\n]*\)|Error: [^\n]*|Task cancelled\.")


_SCHEMA = """
CREATE TABLE chats (task_id TEXT PRIMARY KEY, chat_id TEXT) WITHOUT ROWID;
CREATE TABLE seen (task_id TEXT, role TEXT, PRIMARY KEY (task_id, role)) WITHOUT ROWID;
"""


class Log:
    """The tasks of all lines of an import: a log that was cut into several files may have an answer before its question."""

    def __init__(self, source: Source) -> None:
        self._wanted, self._known = source.wanted, scratch_database(None, _SCHEMA)
        for path in source.files:
            for _, line, _ in lines_of(path):
                with contextlib.suppress(RecordRefused):
                    self._learn(loads_object(line))

    def read(self, path: Path) -> Iterator[ReadCandidate]:
        for number, line, done in lines_of(path):
            place = f"{path}:{number}"
            yield ReadCandidate.of(done, place, partial(self._entry, line, place))

    def _learn(self, record: dict[str, Any]) -> None:
        task_id, user, chat = task_id_of(record.get("task_id")), record.get("user_id"), self._wanted.chat
        if record.get("chat_id") is not None:
            self._known.execute("INSERT OR REPLACE INTO chats VALUES (?,?)", (task_id, chat_id_of(record["chat_id"])))
        elif chat is not None and chat.isdecimal() and user is not None:
            own = chat if str(user) == chat else None  # another person's task is of no chat
            self._known.execute("INSERT OR IGNORE INTO chats VALUES (?,?)", (task_id, own))

    def _entry(self, line: bytes, place: str) -> Turn | str:
        record = loads_object(line)
        event, role, content = _event(record)
        if event not in (*_ASKED, _DONE) or role is None:
            return "an event without a message or an answer"
        task_id = task_id_of(record.get("task_id"))
        chat_id = self._chat(task_id, place)
        if chat_id is None:
            return "not known to be from the user of the private chat in --chat"
        if self._known.execute("SELECT 1 FROM seen WHERE task_id = ? AND role = ?", (task_id, role)).fetchone():
            return "a message that an earlier line already has"
        if not isinstance(content, str):
            raise RecordRefused("the message or output is not a string")
        if not content.strip() or (role == "asst" and (_failed(record) or _NO_ANSWER.fullmatch(content.strip()))):
            return "an error or nothing instead of an answer" if role == "asst" else "without text"
        user = user_id_of(record.get("user_id")) if role == "user" else None
        turn = Turn(task_id, role, chat_id, content, _time(record), user_id=user)
        self._known.execute("INSERT INTO seen VALUES (?,?)", (task_id, role))
        return turn

    def _chat(self, task_id: str, place: str) -> str | None:
        """A task belongs to a private chat only if its user is known to have asked it; to a group, always."""
        row = self._known.execute("SELECT chat_id FROM chats WHERE task_id = ?", (task_id,)).fetchone()
        if row:
            chat_id: str | None = row[0]
            return chat_id
        if self._wanted.chat is None:
            raise InvalidInput(f"{place} does not name its chat. Name it with --chat; nothing was imported.")
        return None if self._wanted.chat.isdecimal() else self._wanted.chat


def reader(source: Source) -> Reader:
    return Log(source).read


def recognise(export: Export) -> str | None:
    for where, records in first_records(export, "*.jsonl"):
        if any(_event(one)[1] and "task_id" in one and _OF_TASKS & one.keys() for one in records):
            return f"{where} whose lines are tasks with `task_id` and `user_message` or `output`"
    return None


def _event(record: dict[str, Any]) -> tuple[object, str | None, object]:
    """(event, role, content); the fields identify the event if nothing else names it."""
    names = (record.get(field) for field in ("event", "message", "msg", "action"))
    named = next((name for name in names if isinstance(name, str)), None)
    if record.get("user_message") is not None and named in (None, *_ASKED):
        return _ASKED[-1], "user", record["user_message"]
    if record.get("output") is not None and named in (None, _DONE):
        return _DONE, "asst", record["output"]
    return named, None, None


def _failed(record: dict[str, Any]) -> bool:
    return bool(record.get("is_error") or record.get("error")) or record.get("status") in ("error", "failed")


def _time(record: dict[str, Any]) -> float:
    written = (record[field] for field in ("timestamp", "time", "ts") if record.get(field) is not None)
    return time_of(next(written, None), ZoneInfo("UTC"))
