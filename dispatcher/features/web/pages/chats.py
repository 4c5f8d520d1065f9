"""*Chats*: which chats there are; the talk of one, page by page, and the search in it."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from dispatcher.features.web.reading.chats import named
from dispatcher.features.web.reading.hits import readable_hits
from dispatcher.features.web.reading.markdown import plain, readable_answers
from dispatcher.features.web.reading.talk import stretch
from dispatcher.features.web.requests.asked import Asked
from dispatcher.memory.day.chats import all_chats
from dispatcher.memory.day.search import find
from shared.search.types import Query
from shared.turns.chunking import PASSAGE_CHARACTERS
from shared.turns.origin_words import replying

#: Chats of the list, and the newest of all chats that are found by their name, too.
MOST_CHATS, NAMED = 100, 200


def page(asked: Asked) -> Response:
    wanted = asked.value("q").strip().lower()
    with asked.memory() as memory:
        lines, notes = all_chats(memory, asked.session.grant.sees)
        names = named(memory, [line.chat_id for line in lines[: NAMED if wanted else MOST_CHATS]])
        called = {chat_id for chat_id, one in names.items() if wanted in one.name.lower()}
        found = [line for line in lines if wanted in line.chat_id.lower() or line.chat_id in called]
        names |= named(memory, [line.chat_id for line in found[:MOST_CHATS] if line.chat_id not in names])
    return asked.page(
        "chats.html",
        "Chats",
        lines=[(line, names[line.chat_id]) for line in found[:MOST_CHATS]],
        found=len(found),
        every=len(lines),
        searched=NAMED,
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
        found = stretch(memory, chat_id, end=end, until=until, around=asked.value("turn"))
        answers = iter(readable_answers(turn.remembered for turn, _ in found.said if turn.role != "user"))
        turns = [
            (turn, who, plain(turn.remembered) if turn.role == "user" else next(answers), replying(turn.origin))
            for turn, who in found.said
        ]
        return asked.chat_page(memory, "talk.html", "Talk", found=found, turns=turns)


def search(asked: Asked) -> Response:
    """The same ranking as for Claude."""
    chat_id, text = asked.chat(), asked.value("q").strip()
    found, shown = None, []
    with asked.memory() as memory:
        if text:
            found = find(memory, asked.settings, Query(chat_id, text, HITS))
            shown = readable_hits(memory, chat_id, found.rows, text, PASSAGE_CHARACTERS)
        return asked.chat_page(memory, "search.html", "Search", text=text, found=found, shown=shown)
