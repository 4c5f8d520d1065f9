"""*Changes*: what the nights have changed of the facts of each chat, and what they propose, to be taken back or agreed to."""

from __future__ import annotations

import time

from starlette.responses import Response

from dispatcher.chat_data.hooks import Panel, chat_panel
from dispatcher.features.web.reading.chats import named
from dispatcher.features.web.requests.asked import Asked
from dispatcher.memory.day.chats import all_chats
from shared.hooks import features

#: Seconds after which no further chat is looked at, and the most chats that are shown.
SECONDS, MOST = 2.0, 50


def page(asked: Asked) -> Response:
    found, looked = list[tuple[str, Panel]](), 0
    with asked.memory() as memory:
        lines, notes = all_chats(memory, asked.session.grant.sees)
        ends = time.monotonic() + SECONDS
        for line in lines if memory.day.wanted else ():
            if time.monotonic() > ends or len(found) >= MOST:
                break
            panels = features().ask(chat_panel, day=memory.day, client=asked.redis, chat_id=line.chat_id)
            found += [(line.chat_id, one) for one in panels if one.entries]
            looked += 1
        names = named(memory, dict.fromkeys(chat_id for chat_id, _ in found))
    every = len(lines) if memory.day.wanted else 0
    return asked.page("changes.html", "Changes", found=found, names=names, looked=looked, every=every, notes=notes)
