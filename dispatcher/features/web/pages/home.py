"""*Home*: what is remembered, found by one search; what is new and what is due; and whether all is well, in one line."""

from __future__ import annotations

import time
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.chat_data.forget.layers.files import remove_old_uploads
from dispatcher.features.web.reading.chats import named
from dispatcher.features.web.reading.everywhere import said_at, search_everywhere
from dispatcher.features.web.reading.hits import readable_hits
from dispatcher.features.web.reading.news import due, learned, yesterday
from dispatcher.features.web.requests.asked import Asked
from dispatcher.health.doctor import status_problems
from dispatcher.health.nights import nights_of, records_of
from dispatcher.memory.day.chats import all_chats
from dispatcher.memory.day.open_memory import OpenedMemory
from shared.errors import HmemError, StoreUnavailable
from shared.system.command import translate

#: Chats of the first page, and about how much is shown of a hit. Characters.
CHATS, HIT_CHARACTERS = 20, 500


def page(asked: Asked) -> Response:
    remove_old_uploads(asked.settings)
    grant, now = asked.session.grant, time.time()
    health = _health(asked) if grant.whole_host else None
    with asked.memory() as memory:
        lines, notes = all_chats(memory, grant.sees)
        news, how_many, coming = _news(asked, memory, now, notes)
        shown = [line.chat_id for line in lines[:CHATS]]
        mentioned = [*(one.memory.chat_id for one in news or ()), *(chat_id for _, chat_id, _ in coming)]
        names = named(memory, dict.fromkeys([*shown, *mentioned]))
    return asked.page(
        "home.html", "What is remembered",
        health=health, news=news, how_many=how_many, coming=coming, now=now, notes=notes,
        chats=[names[chat_id] for chat_id in shown], every=len(lines), names=names,
    )  # fmt: skip


def _news(
    asked: Asked, memory: OpenedMemory, now: float, notes: list[str]
) -> tuple[list[Any] | None, int, list[tuple[float, str, Any]]]:
    """(what was learned, None if that cannot be read; how much there is of it; what is due)."""
    if not memory.day.wanted:
        return [], 0, []
    chats = asked.session.grant.chats
    try:
        return *learned(memory.day, asked.redis, chats, yesterday(now, asked.zone)), due(memory.day, chats, now)
    except StoreUnavailable as error:
        notes.append(str(error))
        return None, 0, []


def _health(asked: Asked) -> dict[str, Any]:
    """As far as it is known at once: `error`, or `faults`, and the last good night with its new messages."""
    try:
        faults, nights = status_problems(asked.settings), nights_of(asked.redis)
    except (HmemError, RedisError, OSError) as failed:
        return {"error": translate(failed) or failed}
    run, ended = nights.good or (None, None)
    new = next((one.new for one in records_of(asked.redis) if one.run == run and one.new is not None), None)
    return {"error": None, "faults": faults, "ended": ended, "new": new}


def search(asked: Asked) -> Response:
    """The same ranking as for Claude, in one chat after the other."""
    text = asked.value("q").strip()
    found, names, shown = None, {}, {}
    if text:
        with asked.memory(vectors=True) as memory:
            lines, notes = all_chats(memory, asked.session.grant.sees)
            found = search_everywhere(memory, asked.settings, lines, text)
            names = named(memory, found.found)
            found.notes.extend(notes)
            shown = {
                chat: readable_hits(memory, chat, rows, text, HIT_CHARACTERS) for chat, rows in found.found.items()
            }
    return asked.page("find.html", "Search", text=text, found=found, names=names, shown=shown, said_at=said_at)
