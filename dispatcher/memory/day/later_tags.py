"""Tags that wait in Redis (`hcli:mem:tags`) until the store can be reached again."""

from __future__ import annotations

from typing import Any

from dispatcher.memory.typed.tags import AnswerTags, Tag, TagKind
from shared.turns.records import Task, chat_id_of, dumps, task_id_of, timestamp_of, user_id_of


def later_tags(answer: AnswerTags) -> bytes:
    """Tags as `hcli:mem:tags` stores them."""
    task = answer.task
    record = {
        "task_id": task.task_id,
        "chat_id": task.chat_id,
        "user_id": task.user_id,
        "name": task.name,
        "session": answer.session,
        "said_at": answer.said_at,
        "tags": [
            {"number": t.number, "kind": t.kind.value, "text": t.text, "options": dict(t.options)} for t in answer.tags
        ],
        "shown": None if answer.shown is None else sorted(answer.shown),
        "refusal": answer.refusal,
    }
    return dumps(record)


def parse_later(record: dict[str, Any]) -> AnswerTags:
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
    listed = record.get("shown", ())
    shown = None if listed is None else frozenset(map(int, listed))
    session, said_at = str(record["session"]), timestamp_of(record["said_at"])
    return AnswerTags(task, session, tags, said_at, str(record.get("refusal", "")), shown)
