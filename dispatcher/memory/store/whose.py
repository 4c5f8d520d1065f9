"""Whose a memory is. In a group it belongs to the person who said it, by their Telegram user id; in a private chat to the chat.

Display names are only shown: anybody may choose any, so nothing is decided by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shared.config.values import is_person
from shared.turns.speakers import Speaker, label, namesakes

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from shared.turns.records import Task


def speaker_of(task: Task) -> dict[str, Any]:
    """The fields of a memory that say who said it; none in a private chat, and for who writes in the name of a group or a channel."""
    if not task.in_group or task.user_id is None or not is_person(task.user_id):
        return {}
    return {"user_id": task.user_id, "name": task.name}


def without_speaker(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a memory for a private chat, in which all is one person's."""
    return {name: value for name, value in fields.items() if name not in ("user_id", "name")}


def is_own(memory: Memory, user: str | None) -> bool:
    """Whether this person said it."""
    return memory.user_id is not None and memory.user_id == user


def is_own_or_shared(memory: Memory, user: str | None) -> bool:
    """Whether this person said it, or it is the whole chat's."""
    return memory.user_id is None or memory.user_id == user


def speaker_labels(memories: Iterable[Memory], asker: tuple[str, str | None] | None = None) -> Mapping[str, str]:
    """User id → the name that is shown: the newest one, with a mark where two have the same. `asker`: (user id, name) of who asks."""
    names: dict[str, tuple[float, str]] = {}
    for memory in memories:
        if memory.user_id is not None and memory.created >= names.get(memory.user_id, (0.0, ""))[0]:
            names[memory.user_id] = memory.created, memory.name or ""
    shown = {user: name for user, (_, name) in names.items()}
    if asker is not None:
        shown[asker[0]] = asker[1] or shown.get(asker[0], "")
    speakers: list[Speaker] = [("user", name, user) for user, name in shown.items()]
    marks = namesakes(speakers)
    return {str(one[2]): label(*one[:2], marks.get(one, "")) for one in speakers}


def said_by(memory: Memory) -> dict[str, str]:
    """`speaker` and `user_id` of a memory of a group, for listings as JSON; nothing without a person."""
    if memory.user_id is None:
        return {}
    return {"speaker": label("user", memory.name or ""), "user_id": memory.user_id}


def said_text(memory: Memory) -> str:
    """`Bob: text` in a group, else the text."""
    return f"{who}: {memory.text}" if (who := said_by(memory).get("speaker")) else memory.text
