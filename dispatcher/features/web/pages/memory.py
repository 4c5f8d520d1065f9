"""One chat: its summary, its facts, goals and preferences, and its days."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from dispatcher.answering.commands.memory import forget_for_owner
from dispatcher.chat_data.hooks import Panel, act_in_panel, chat_panel
from dispatcher.features.web.reading.facts import ChatDay, ShownMemory, days_of, shown_memories
from dispatcher.features.web.reading.talk import turn_times
from dispatcher.features.web.requests.asked import Asked, go_to
from dispatcher.memory.dates.user_dates import goal_deadline
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.day.requests import owner_task
from dispatcher.memory.tombstones import hidden_by
from dispatcher.memory.typed.actions import Outcome
from dispatcher.prompt.assemble import summary_of
from shared.errors import HmemError, InvalidInput, StoreUnavailable
from shared.hooks import features

KINDS = ("fact", "goal", "preference")
#: Pages beside the chat's own from which a memory can be changed.
BACK = ("/", "/changes")


#: Facts that are shown, and summaries that are read for the days.
MOST_FACTS, SUMMARIES = 200, 50


@dataclass
class _ChatShown:
    """What the page says of a chat; `noted`: whether there are any facts, None if none can be read; `notes`: what could not be read."""

    summary: str = ""
    facts: list[ShownMemory] = field(default_factory=list)
    noted: bool | None = None
    panels: list[Panel] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    days: list[ChatDay] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def page(asked: Asked) -> Response:
    chat_id, words, kind = asked.chat(), asked.value("q").strip(), asked.value("kind")
    with asked.memory() as memory:
        found = _read(asked, memory, chat_id, words, kind if kind in KINDS else "")
        undo = {entry.number: entry.actions for panel in found.panels for entry in panel.entries if entry.number}
        facts = found.facts[:MOST_FACTS]
        return asked.chat_page(
            memory, "chat.html", found=found, facts=facts, undo=undo, q=words, kind=kind, kinds=KINDS
        )


def _read(asked: Asked, memory: OpenedMemory, chat_id: str, words: str, kind: str) -> _ChatShown:
    found, day, now = _ChatShown(), memory.day, time.time()
    memories: Sequence[Any] = ()
    summaries: Sequence[Any] = ()
    release, why = memory.release_or_reason("The release cannot be read")
    found.notes += [why] if why else []
    if release:
        found.summary, missing = summary_of(release, chat_id, day.forgotten)
        found.notes += missing
    try:
        found.times = [at for at, _ in turn_times(memory, chat_id)]
    except HmemError as error:
        found.notes.append(str(error))
    try:
        if day.wanted:
            known = day.remembering.of_chat(chat_id)
            found.facts, found.noted = shown_memories(known, now, asked.zone, words, kind), bool(known.memories)
            panels = features().ask(chat_panel, day=day, client=asked.redis, chat_id=chat_id)
            found.panels = [one for one in panels if one.entries]
            memories, summaries = known.memories, day.summaries.list(chat_id, SUMMARIES)
    except StoreUnavailable as error:
        found.notes.append(str(error))
    hidden = hidden_by(day.forgotten.of(chat_id))
    found.days = days_of(found.times, memories, summaries, hidden, asked.zone)
    return found


def add(asked: Asked) -> Response:
    chat_id, text, kind, now = asked.chat(), _text(asked), asked.value("kind", "fact"), time.time()
    if kind not in KINDS:
        raise InvalidInput(f"A memory is one of {', '.join(KINDS)}. Go back and choose one.")
    more = {}
    if deadline := asked.value("deadline").strip():
        more["deadline"] = goal_deadline(kind, deadline, now, asked.zone)
    return _changed(asked, lambda day: day.acting.add(owner_task(chat_id), text, now, kind=kind, **more))


def correct(asked: Asked) -> Response:
    task, number, text = owner_task(asked.chat()), asked.number("number", 0, 1), _text(asked)
    return _changed(asked, lambda day: day.acting.correct(task, number, text, time.time()))


def done(asked: Asked) -> Response:
    task, number = owner_task(asked.chat()), asked.number("number", 0, 1)
    return _changed(asked, lambda day: day.acting.done(task, number, time.time()), vectors=False)


def forget(asked: Asked) -> Response:
    """As `hmem memory forget`."""
    chat_id, number = asked.chat(), asked.number("number", 0, 1)
    return _changed(asked, lambda day: forget_for_owner(day, asked.redis, chat_id, number))


def act(asked: Asked) -> Response:
    """What a feature's part of the page offers."""
    words = asked.value("words")

    def change(day: DayMemory) -> Outcome:
        said = features().ask(act_in_panel, day=day, client=asked.redis, chat_id=asked.chat(), words=words)
        if not said:
            raise InvalidInput("That is not possible any more. Go back and load the page again.")
        return Outcome(" ".join(said))

    return _changed(asked, change)


def _changed(asked: Asked, change: Callable[[DayMemory], Outcome], *, vectors: bool = True) -> Response:
    """Back to where it was asked for, which says what was done."""
    with asked.memory(vectors=vectors) as memory:
        if not memory.day.wanted:
            raise StoreUnavailable("DAY_STORE_URL=none: no memories are stored. Unset it, or set it to a database.")
        asked.session.said = change(memory.day).say
    return go_to(asked.value("back")) if asked.value("back") in BACK else go_to("/chat", chat=asked.chat())


def _text(asked: Asked) -> str:
    return asked.wanted("text", "The text is empty. Go back and write what is to be remembered.")
