"""Names of messages' files in an export: readable, and ours. Whatever the sender called a file, its name here is a plain one.

    2026-02-09_14-30_holiday-photo.jpg        when it was sent, what it was called, and an ending that follows from its type alone

An ending decides which program opens a file, so none comes from the sender, and none means more than a picture, a sound, a text or a document: a
page or a script is text (`.txt`), what is not known is `.bin`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from shared.turns.media import Media
from shared.turns.records import Turn

#: The folder of an export, beside the conversation, and the file that says whose each is.
FOLDER, INDEX = "media", "media.jsonl"
#: (task id, SHA-256) → name of the file; for each that was written.
FileNames = Mapping[tuple[str, str], str]
PICTURE_ENDINGS = ("jpg", "png", "gif", "webp")
#: Longest part of a name that comes from the sender. Bytes of UTF-8.
NAME_BYTES = 60

_ENDINGS = {
    "image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp",
    "audio/ogg": "ogg", "audio/opus": "ogg", "audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/x-m4a": "m4a", "audio/aac": "aac", "audio/wav": "wav",
    "audio/x-wav": "wav", "audio/flac": "flac", "audio/webm": "weba", "video/mp4": "mp4", "video/webm": "webm", "video/quicktime": "mov",
    "application/pdf": "pdf", "text/csv": "csv", "application/json": "json", "application/rtf": "rtf", "application/epub+zip": "epub",
    "application/msword": "doc", "application/vnd.ms-excel": "xls", "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt", "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
}  # fmt: skip


def ending_of(mime: str) -> str:
    return _ENDINGS.get(mime.lower()) or ("txt" if mime.lower().startswith("text/") else "bin")


class FileNamer:
    """Gives each file of one chat a name that no other has, also where letters of both cases are the same."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone, self._taken = zone, set[str]()

    def name(self, turn: Turn, one: Media) -> str:
        stem = f"{datetime.fromtimestamp(turn.timestamp, self._zone):%Y-%m-%d_%H-%M}_{_clean(one.name, one.kind)}"
        ending, number = ending_of(one.mime), 1
        while (name := f"{stem}{f'-{number}' if number > 1 else ''}.{ending}").casefold() in self._taken:
            number += 1
        self._taken.add(name.casefold())
        return name


def _clean(name: str | None, kind: str) -> str:
    """Letters, digits and single dashes, without the ending; the kind where nothing is left."""
    base = unicodedata.normalize("NFKC", name or "")
    stem, dot, _ = base.rpartition(".")
    words = re.findall(r"[^\W_]+", stem if dot else base)
    kept, size = list[str](), 0
    for word in words:
        size += len(word.encode()) + 1
        if size > NAME_BYTES:
            break
        kept.append(word)
    if words and not kept:
        kept = [words[0].encode()[:NAME_BYTES].decode("utf-8", "ignore")]
    return "-".join(kept) or kind.replace("_", "-")


def files_of(turn: Turn, names: FileNames) -> Iterator[tuple[Media, str]]:
    """The files of a turn that are in the export, with their names."""
    for one in {one.sha256: one for one in turn.media}.values():
        if name := names.get((turn.task_id, one.sha256)):
            yield one, name


def index_line(turn: Turn, one: Media, name: str | None) -> dict[str, str | None]:
    """A line of the index; without a name the file is not in the export."""
    about = {"turn_id": turn.turn_id, "sha256": one.sha256, "kind": one.kind, "mime": one.mime}
    return {**about, "file": f"{FOLDER}/{name}" if name else None}


def is_picture(name: str) -> bool:
    return name.rpartition(".")[2] in PICTURE_ENDINGS
