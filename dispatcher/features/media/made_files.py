"""Files that Claude makes in the chat's own directory, on their way to the chat (SEND_FILES).

    before the question: what is in the directory is noted ─ Claude writes ─ what is new or changed is read and stored by hash ─ the result names it

The note is on disk under the task's id: a task that runs again after a crash is compared with what was there before its first attempt, so nothing
that was made in between is missing. The files stay in the directory for the rest of the conversation and are sent again only if they change.

Whatever is there may have been made by a program that Claude ran on behalf of somebody who means harm: only plain files of this user count, with one
name and not behind a link, up to the limits. What is not sent is told.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from dispatcher.answering.retry import keep_trying
from dispatcher.answering.turn import ForAnswer
from shared.system.files import make_dir, read_own, safe_name, write_atomic
from shared.text.format import shorten
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.media import DOCUMENT, MEDIA_MOST, Media
from shared.turns.message_origin import FILE_NAME_CHARACTERS
from shared.turns.speakers import plain_name
from shared.wire.json import record_of
from shared.wire.media import MediaRefused, MediaStore

log = Logger()

#: Is added to the system prompt.
INSTRUCTIONS = """\
Files that you write into your working directory (not into folders below it) are sent to the chat after your answer, once, and again when you change
them. So write one there if somebody asks for a file, and say in a few words what it is."""
#: The folder of the notes in HMEM_STATE_DIR. They have no words: names are hashed.
FOLDER = "made-files"
#: How large all files of an answer may be together, in bytes.
MOST_BYTES = 10_000_000
#: Names that are looked at in a directory.
LOOKED_AT = 1_000

TOO_LARGE = later("{name} is not sent: it is larger than what is left of the {most:g} MB that an answer may have.")
TOO_MANY = later("An answer can have at most {most} files; the others were not sent.")
NOT_PLAIN = later("{name} is not sent: it is not a regular file.")
EMPTY = later("{name} is not sent: it is empty.")
NOT_STORED = later("{name} is not sent: there is no room for it at the moment.")

#: What tells whether a file has changed.
_Seen = tuple[int, int, int, int]


class MadeFiles:
    """One per dispatcher."""

    def __init__(self, state: Path, store: MediaStore) -> None:
        """`state`: HMEM_STATE_DIR."""
        self._state, self._store = state, store

    async def note(self, chat_id: str, task_id: str) -> None:
        """Note what is in the chat's directory before the task's first attempt. If that cannot be written, this answer comes without files."""
        try:
            await asyncio.to_thread(self._note, chat_id, task_id)
        except OSError as error:
            log.error("what Claude makes now will not be sent: the chat's files cannot be noted", error=error.strerror)

    async def made(self, chat_id: str, task_id: str) -> ForAnswer:
        """What the task has made, in the store, and sentences about what is not sent; may be repeated. Nothing where its note is missing."""
        notes, files = list[str](), list[Media]()
        try:
            found = await asyncio.to_thread(lambda: list(self._new(chat_id, task_id, notes)))
        except OSError as error:
            log.error("what Claude made cannot be read", error=error.strerror)
            return ForAnswer(notes)
        for name, content in found:
            try:
                sha256 = await keep_trying(lambda: self._store.put(content))  # noqa: B023 - awaited immediately
            except MediaRefused:
                notes.append(tr(NOT_STORED).format(name=_told(name)))
            else:
                files.append(Media(DOCUMENT, sha256, len(content), name=name))
        return ForAnswer(notes, tuple(files))

    def _note(self, chat_id: str, task_id: str) -> None:
        path = self._state / FOLDER / safe_name(chat_id)
        if _noted(path, task_id) is None:
            seen = {_hash(name): _seen(status) for name, status, _ in self._entries(chat_id)}
            make_dir(path.parent)
            write_atomic(path, orjson.dumps({"task": task_id, "files": seen}))

    def _new(self, chat_id: str, task_id: str, notes: list[str]) -> Iterator[tuple[str, bytes]]:
        before = _noted(self._state / FOLDER / safe_name(chat_id), task_id)
        if before is None:
            return
        left, count = MOST_BYTES, 0
        for name, status, directory in self._entries(chat_id):
            if before.get(_hash(name)) == list(_seen(status)):
                continue
            if count == MEDIA_MOST:
                notes.append(tr(TOO_MANY).format(most=MEDIA_MOST))
                return
            content = _content(name, directory, left)
            if isinstance(content, bytes):
                left, count = left - len(content), count + 1
                yield clean_name(name), content
            else:
                notes.append(tr(content).format(name=_told(name), most=MOST_BYTES / 1_000_000))

    def _entries(self, chat_id: str) -> Iterator[tuple[str, os.stat_result, int]]:
        """(name, status, descriptor of the directory) of all but hidden files and directories, the oldest first."""
        path, found = self._state / "chats" / safe_name(chat_id), list[tuple[str, os.stat_result, int]]()
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it is not there, or no directory
            return
        try:
            with os.scandir(directory) as entries:
                names = sorted(one.name for one in entries if not one.name.startswith("."))
            for name in names[:LOOKED_AT]:
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        found.append((name, status, directory))
            yield from sorted(found, key=lambda one: (one[1].st_mtime_ns, one[0]))
        finally:
            os.close(directory)


def _content(name: str, directory: int, most: int) -> bytes | str:
    """The bytes of a plain file, or the sentence why not."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return NOT_PLAIN
    with os.fdopen(descriptor, "rb") as handle:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.geteuid():
            return NOT_PLAIN
        content = handle.read(most + 1)
    if not content:
        return EMPTY
    return content if len(content) <= most else TOO_LARGE


def _noted(path: Path, task_id: str) -> dict[str, Any] | None:
    """What was there before this task; None if that is not noted."""
    try:
        record = record_of(read_own(path))
    except OSError:
        return None
    files = record.get("files")
    return files if record.get("task") == task_id and isinstance(files, dict) else None


def _seen(status: os.stat_result) -> _Seen:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hash(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def clean_name(name: str) -> str:
    """A file's name as it is sent: on one line, without what does not show or changes the direction of text."""
    text = os.fsencode(name).decode("utf-8", "replace")
    shown = " ".join("".join(one for one in text if one.isprintable()).split()).strip(". ")
    if len(shown) <= FILE_NAME_CHARACTERS:
        return shown or "file"
    stem, dot, ending = shown.rpartition(".")
    ending = f"{dot}{ending}" if stem and len(ending) <= 16 else ""
    return shorten(shown[: len(shown) - len(ending)], FILE_NAME_CHARACTERS - len(ending)) + ending


def _told(name: str) -> str:
    """In a sentence of ours."""
    return plain_name(clean_name(name)) or tr("A file")
