"""Tags that wait in Redis (`hcli:mem:tags`) until the store can be reached again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from dispatcher.memory.typed.tags import Tag, TagKind
from shared.turns.records import Task, chat_id_of, dumps, task_id_of, timestamp_of, user_id_of


class LaterTags(NamedTuple):
    """The tags of an answer given at `said_at` (POSIX seconds). `refusal`: why the person may have only their own memories forgotten, "" if any;
    `shown`: numbers of the memories that the model had before it."""

    task: Task
    session: str
    tags: list[Tag]
    said_at: float
    refusal: str = ""
    shown: frozenset[int] = frozenset()


def later_tags(
    task: Task, session: str, tags: Sequence[Tag], now: float, refusal: str = "", shown: Collection[int] = ()
) -> bytes:
    """Tags as `hcli:mem:tags` stores them."""
    record = {
        "task_id": task.task_id,
        "chat_id": task.chat_id,
        "user_id": task.user_id,
        "name": task.name,
        "session": session,
        "said_at": now,
        "tags": [{"number": t.number, "kind": t.kind.value, "text": t.text, "options": dict(t.options)} for t in tags],
        "shown": sorted(shown),
    }
    return dumps(record | ({"refusal": refusal} if refusal else {}))


def parse_later(record: dict[str, Any]) -> LaterTags:
    """RecordRefused, KeyError or ValueError for a record that is none."""
    name = record.get("name")
    task = Task(
        task_id_of(record["task_id"]),
        chat_id_of(record["chat_id"]),
        "",
        user_id_of(record.get("user_id")),
        name=name if isinstance(name, str) else None,
    )
    tags = [
        Tag(int(t["number"]), TagKind(t["kind"]), str(t["text"]), {str(k): str(v) for k, v in t["options"].items()})
        for t in record["tags"]
    ]
    shown = frozenset(map(int, record.get("shown", ())))
    session, said_at = str(record["session"]), timestamp_of(record["said_at"])
    return LaterTags(task, session, tags, said_at, str(record.get("refusal", "")), shown)
