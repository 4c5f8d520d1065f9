"""One chat: its summary, its facts, goals and preferences, and its days."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from dispatcher.answering.commands.memory import forget_for_owner
from dispatcher.chat_data.hooks import Panel, act_in_panel, chat_panel
from dispatcher.features.web.chat_data import calendar, turn_times
from dispatcher.features.web.requests.asked import Asked, go_to
from dispatcher.memory.dates.user_dates import goal_deadline
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.requests import owner_task
from dispatcher.memory.store.whose import speaker_labels
from dispatcher.memory.typed.actions import Outcome
from dispatcher.memory.typed.text import named_line
from dispatcher.prompt.assemble import summary_of
from shared.errors import HmemError, InvalidInput, StoreUnavailable
from shared.hooks import features

KINDS = ("fact", "goal", "preference")


def page(asked: Asked) -> Response:
    chat_id, now, notes = asked.chat(), time.time(), list[str]()
    said_now, asked.session.said = asked.session.said, ""
    summary, groups, times = "", dict[str, list[tuple[Any, str, int | None]]](), list[float]()
    panels = list[Panel]()
    with asked.memory() as memory:
        release, why = memory.release_or_reason("The release cannot be read")
        notes += [why] if why else []
        if release:
            summary, missing = summary_of(release, chat_id, memory.day.forgotten)
            notes += missing
        try:
            if memory.day.wanted:
                known = memory.day.remembering.of_chat(chat_id)
                numbers = known.superseded_numbers
                labels = speaker_labels(known.shown)
                for one in known.shown:
                    line = named_line(one, labels, now, asked.zone)
                    groups.setdefault(str(one.type), []).append((one, line, numbers.get(one.memory_id)))
                panels = features().ask(chat_panel, day=memory.day, client=asked.redis, chat_id=chat_id)
        except StoreUnavailable as error:
            notes.append(str(error))
        try:
            times = [at for at, _ in turn_times(memory, chat_id)]
        except HmemError as error:
            notes.append(str(error))
    return asked.page(
        "chat.html",
        f"Chat {chat_id}",
        chat=chat_id,
        summary=summary,
        groups=groups,
        panels=[one for one in panels if one.entries],
        kinds=KINDS,
        turns=len(times),
        first=times[0] if times else None,
        last=times[-1] if times else None,
        months=calendar(times, asked.zone),
        said_now=said_now,
        notes=notes,
    )


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
    """Back to the chat, which says what was done."""
    with asked.memory(vectors=vectors) as memory:
        if not memory.day.wanted:
            raise StoreUnavailable("DAY_STORE_URL=none: no memories are stored. Unset it, or set it to a database.")
        asked.session.said = change(memory.day).say
    return go_to("/chat", chat=asked.chat())


def _text(asked: Asked) -> str:
    return asked.wanted("text", "The text is empty. Go back and write what is to be remembered.")
