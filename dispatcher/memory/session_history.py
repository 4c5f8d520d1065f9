"""A chat's current conversation in `hcli:session_history`: a list that h-cli's bot reads, too, with additional fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dispatcher.memory.tombstones import ErasedEntries
from shared.text.format import one_line, shorten, time_text
from shared.text.marks import harmless
from shared.turns.message_origin import Origin
from shared.turns.origin_words import labels_of, replying
from shared.turns.records import RecordRefused, Tombstone, Turn, dumps, loads_object, timestamp_of, user_id_of
from shared.turns.speakers import Speaker

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: The length of one turn of the current conversation if no session carries it (SESSION_MODE=replay). Characters.
RECENT_CHARACTERS = 1000


def conversation_of(raws: Iterable[bytes], tombstones: Sequence[Tombstone]) -> tuple[list[Turn], list[bytes]]:
    """(a chat's current conversation as turns without ids, entries to be erased); invalid entries are skipped."""
    erased = ErasedEntries(tombstones)
    turns, gone = list[Turn](), list[bytes]()
    for raw in raws:
        with suppress(RecordRefused, KeyError, TypeError):
            turn = _parsed(loads_object(raw))
            if erased.cover(turn.role, turn.timestamp):
                gone.append(raw)
            else:
                turns.append(turn)
    return turns, gone


def _parsed(entry: dict[str, Any]) -> Turn:
    """RecordRefused, KeyError or TypeError for an invalid entry."""
    role, content, at = str(entry["role"]), str(entry["content"]), timestamp_of(entry["timestamp"])
    if role != "user":
        return Turn("", "asst", "", content, at)
    name = entry.get("name")
    named = name if isinstance(name, str) and name.strip() else None
    origin, user = Origin.parse(entry).to_json(), user_id_of(entry.get("user_id"))
    return Turn("", "user", "", content, at, named, extra=origin, user_id=user)


def history_entry(turn: Turn) -> str:
    """A turn as an entry of the list, JSON."""
    more = {"name": turn.name, "user_id": turn.user_id} | turn.origin.to_json()
    role = "user" if turn.role == "user" else "assistant"
    entry = {"role": role, "content": turn.remembered, "timestamp": turn.timestamp}
    return dumps(entry | {name: value for name, value in more.items() if value is not None}).decode("utf-8")


def history_lines(
    recent: Sequence[Turn], zone: ZoneInfo, most: int = RECENT_CHARACTERS, speakers: Iterable[Speaker] = ()
) -> list[str]:
    """A line for each turn of a conversation, as for `said_lines`, after its time."""
    return said_lines(recent, lambda at: f"- {time_text(at, zone)}", most, speakers)


def said_lines(
    turns: Sequence[Turn], when: Callable[[float], str], most: int, speakers: Iterable[Speaker] = ()
) -> list[str]:
    """A line for each turn, sanitised, with at most `most` characters of its text; `when` says when it was.

    `speakers`: others who spoke in the chat; of two people of one name each has a mark.
    """
    labels = labels_of(turns, {*speakers, *(turn.person for turn in turns)})
    return [
        harmless(f"{when(turn.timestamp)} {who}{replying(turn.origin)}: {shorten(one_line(turn.remembered), most)}")
        for turn, who in zip(turns, labels, strict=True)
    ]
