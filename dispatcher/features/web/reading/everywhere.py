"""One search over every chat that may be seen: that of `hmem search`, in one chat after the other, the newest first, for a short time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.memory.day.chats import ChatLine
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.day.search import find_in
from dispatcher.memory.typed.search import MemoryHit
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput
from shared.search.types import Hit, Query

#: Seconds after which no further chat is searched; hits of one chat, and of all.
SECONDS, OF_A_CHAT, MOST = 2.0, 5, 40
#: A hit with less than this share of the best one's score is left out: each chat has a best one, however little it has to do with the question.
LEAST = 0.4


@dataclass(frozen=True)
class Everywhere:
    """`found`: the chats with hits, the best first, and what each has, the newest first; of `chats`, so many were searched; what was missing."""

    found: Mapping[str, Sequence[Hit | MemoryHit]]
    searched: int
    chats: int
    notes: list[str] = field(default_factory=list)


def said_at(row: Hit | MemoryHit) -> float:
    """When it was said or noted, in POSIX seconds."""
    return row.memory.created if isinstance(row, MemoryHit) else row.chunk.started_at


def search_everywhere(memory: OpenedMemory, settings: Settings, chats: Sequence[ChatLine], text: str) -> Everywhere:
    notes, hits, searched = dict[str, None](), list[tuple[str, Hit | MemoryHit]](), 0
    ends = time.monotonic() + SECONDS
    for line in chats:
        if time.monotonic() > ends:
            break
        searched += 1
        try:
            found = find_in(memory, settings, Query(line.chat_id, text, OF_A_CHAT))
        except InvalidInput:
            continue  # nothing is stored of it
        except (HmemError, OSError) as error:
            notes[str(error)] = None
            break
        notes |= dict.fromkeys(found.recalled.degraded)
        hits += [(line.chat_id, row) for row in found.rows if row.score > 0]
    best = max((row.score for _, row in hits), default=0.0)
    kept = sorted((one for one in hits if one[1].score >= LEAST * best), key=lambda one: -one[1].score)[:MOST]
    by_chat: dict[str, list[Hit | MemoryHit]] = {chat_id: [] for chat_id, _ in kept}
    for chat_id, row in sorted(kept, key=lambda one: -said_at(one[1])):
        by_chat[chat_id].append(row)
    return Everywhere(by_chat, searched, len(chats), list(notes))
