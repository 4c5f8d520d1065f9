"""*Chats*: which chats there are."""

from __future__ import annotations

from starlette.responses import Response

from dispatcher.features.web.chat_data import all_chats
from dispatcher.features.web.requests.asked import Asked

PAGE_CHATS = 100


def page(asked: Asked) -> Response:
    wanted, start = asked.value("q").strip(), asked.number("from", 0)
    with asked.reader.memory() as memory:
        lines, notes = all_chats(memory)
    seen = [line for line in lines if asked.session.grant.sees(line.chat_id)]
    found = [line for line in seen if wanted.lower() in line.chat_id.lower()]
    return asked.page(
        "chats.html",
        "Chats",
        lines=found[start : start + PAGE_CHATS],
        found=len(found),
        every=len(seen),
        wanted=wanted,
        start=start,
        step=PAGE_CHATS,
        notes=notes,
    )
