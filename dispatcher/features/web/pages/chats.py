"""*Chats*: which chats there are; the talk of one, page by page, and the search in it."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from dispatcher.features.web.chat_data import all_chats, stretch
from dispatcher.features.web.requests.asked import Asked
from dispatcher.memory.day.search import find
from shared.search.types import Query

#: Chats of the list.
MOST_CHATS = 200


def page(asked: Asked) -> Response:
    wanted = asked.value("q").strip()
    with asked.memory() as memory:
        lines, notes = all_chats(memory)
    seen = [line for line in lines if asked.session.grant.sees(line.chat_id)]
    found = [line for line in seen if wanted.lower() in line.chat_id.lower()]
    return asked.page(
        "chats.html",
        "Chats",
        lines=found[:MOST_CHATS],
        found=len(found),
        every=len(seen),
        wanted=wanted,
        notes=notes,
    )


#: Hits of a search.
HITS = 20


def talk(asked: Asked) -> Response:
    """The newest turns, those of a day and before, or those before the turn with a number."""
    chat_id, day = asked.chat(), asked.date("date")
    until = (day + timedelta(days=1)).timestamp() if day else None
    end = asked.number("end", 0) if asked.value("end") else None
    with asked.memory() as memory:
        found = stretch(memory, chat_id, end=end, until=until)
    return asked.page("talk.html", f"Talk of chat {chat_id}", chat=chat_id, found=found, date=asked.value("date"))


def search(asked: Asked) -> Response:
    """The same ranking as for Claude."""
    chat_id, text = asked.chat(), asked.value("q").strip()
    found = None
    if text:
        with asked.memory(vectors=True) as memory:
            found = find(memory, asked.settings, Query(chat_id, text, HITS))
    return asked.page("search.html", f"Search in chat {chat_id}", chat=chat_id, text=text, found=found)
