"""A message whose files are still at Telegram, as Redis has it until they are fetched (incoming/arrivals.py).

It holds the task as it will be, and the files to fetch. What comes after it in the same chat waits behind it, so that a chat keeps its order. The
pictures of an album come as a message each: they are gathered in the first one's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from dispatcher.bots.telegram.incoming.media_kinds import FileToFetch, stand_in
from shared.turns.media import MEDIA_MOST
from shared.turns.records import NO_TEXT, RecordRefused, dumps, loads_object, with_text

#: How long the bot waits for another picture of an album. Seconds.
ALBUM_SECONDS = 1.0


@dataclass(frozen=True)
class Arriving:
    """`at`: when the newest part of it came (POSIX seconds); `order`: the number of its update; `record`: where the answer goes (state.Waiting)."""

    order: int
    chat: str
    at: float
    label: str
    task: dict[str, Any]
    record: dict[str, Any]
    files: tuple[FileToFetch, ...] = ()
    album: str | None = None

    @property
    def due(self) -> float:
        return self.at + ALBUM_SECONDS if self.album and len(self.files) < MEDIA_MOST else self.at

    @property
    def text(self) -> str:
        return "" if self.task.get(NO_TEXT) is True else str(self.task.get("message", ""))

    def with_picture(self, other: Arriving) -> Arriving:
        """With one more of its album; the caption counts, whichever of them has it."""
        files = (*self.files, *other.files)[:MEDIA_MOST]
        if self.text or not other.text:
            return replace(self, at=other.at, files=files)
        task = {name: value for name, value in other.task.items() if name != "task_id"}
        whole = {"task_id": self.task["task_id"], **task}
        return replace(self, at=other.at, files=files, task=whole, label=other.label)

    def with_caption(self, text: str) -> Arriving:
        """After an edit."""
        return replace(self, task=with_text(self.task, text))

    def to_json(self) -> bytes:
        return dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def parse(cls, raw: bytes) -> Arriving:
        """RecordRefused or TypeError for what this program did not write."""
        record = loads_object(raw)
        files = tuple(FileToFetch(**one) for one in record.pop("files", ()))
        made = cls(files=files, **record)
        if not isinstance(made.task, dict) or not isinstance(made.record, dict):
            raise RecordRefused("no task")
        return made


def named(task: dict[str, Any], files: tuple[FileToFetch, ...]) -> dict[str, Any]:
    """The task of a message with files: one without words says what it is instead."""
    if str(task.get("message") or "").strip() or not files:
        return task
    return task | {"message": stand_in(files[0].kind), NO_TEXT: True}
