"""One request, as a page gets it, and what a page answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any
from zoneinfo import ZoneInfo

from redis import Redis
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dispatcher.features.web.jobs import Jobs
from dispatcher.features.web.reading.chats import name_of
from dispatcher.features.web.render import render, url
from dispatcher.features.web.requests.access import Session
from dispatcher.memory.day.open_memory import OpenedMemory, open_memory
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused, chat_id_of

#: Characters of one value in a query or a form.
VALUE_CHARACTERS = 20_000


class NotShown(Exception):
    """The page is not for this session, or there is none: both look the same from outside."""


@dataclass(frozen=True)
class Asked:
    """`query` and `form` have one value for each name."""

    session: Session
    settings: Settings
    redis: Redis
    jobs: Jobs
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    in_part: bool = False  # htmx asks for a part of the page

    @property
    def zone(self) -> ZoneInfo:
        return self.settings.timezone

    @contextmanager
    def memory(self, *, vectors: bool = False) -> Iterator[OpenedMemory]:
        """As a command opens it; with `vectors` the embedder and the vectors of the release are open, too."""
        with open_memory(self.settings) as memory:
            if vectors:
                memory.release_or_reason("")  # what needs it says why it is not there
                memory.open_vectors()
            yield memory

    def value(self, name: str, default: str = "") -> str:
        """Of the form, else of the query. InvalidInput if it is too long."""
        value = self.form.get(name, self.query.get(name, default))
        if len(value) > VALUE_CHARACTERS:
            raise InvalidInput(f"The value of {name} is longer than {VALUE_CHARACTERS} characters. Shorten it.")
        if "\0" in value:
            raise InvalidInput(f"The value of {name} holds a NUL, which is no text. Remove it.")
        return value

    def wanted(self, name: str, sentence: str) -> str:
        """A value without blanks around it; InvalidInput with the sentence if nothing is left."""
        if value := self.value(name).strip():
            return value
        raise InvalidInput(sentence)

    def date(self, name: str) -> datetime | None:
        """The beginning of a day in the owner's zone; None where none is written."""
        if not (written := self.value(name).strip()):
            return None
        with suppress(ValueError):
            day = datetime.strptime(written, "%Y-%m-%d").replace(tzinfo=self.zone)
            if 1970 <= day.year < 9999:
                return day
        raise InvalidInput("The date cannot be read. Write it like 2026-11-25.")

    def number(self, name: str, default: int, least: int = 0, most: int = 1_000_000_000) -> int:
        written = self.value(name).strip()
        if not written:
            return default
        if not written.isascii() or not written.isdecimal() or len(written) > 12 or not least <= int(written) <= most:
            raise InvalidInput(f"{name} has to be a number from {least} to {most}. Go back and correct it.")
        return int(written)

    def chat(self) -> str:
        """The chat that is asked for; NotShown if this session does not see it, InvalidInput if it cannot be one."""
        try:
            chat_id = chat_id_of(self.value("chat") or None)
        except RecordRefused as error:
            raise InvalidInput(f"This cannot be a chat id: {error}. Choose one from the list of chats.") from error
        if not self.session.grant.sees(chat_id):
            raise NotShown
        return chat_id

    def page(self, template: str, title: str = "", **values: Any) -> Response:
        """The template within the frame of every page, which says what the last form did, once; or a part of one without a title."""
        said = ""
        if title:
            said, self.session.said = self.session.said, ""
        more = {"grant": self.session.grant, "form_token": self.session.form_token, "zone": self.zone, "asked": self}
        return HTMLResponse(render(template, title=title, said_now=said, **more, **values))

    def chat_page(self, memory: OpenedMemory, template: str, what: str = "", **values: Any) -> Response:
        """A page of the chat that is asked for, under its name; `what`: its part of the title."""
        chat_id = self.chat()
        name = name_of(memory, chat_id)
        return self.page(template, f"{what}: {name}" if what else name, chat=chat_id, heading=name, **values)


@contextmanager
def one_at_a_time(lock: Lock, what: str) -> Iterator[None]:
    """InvalidInput while another request holds the lock: it takes the disk and a processor, and anybody with a link can ask for any number."""
    if not lock.acquire(blocking=False):
        raise InvalidInput(f"Another {what} is being made. Wait until it is there, then go back and ask again.")
    try:
        yield
    finally:
        lock.release()


def go_to(path: str, **query: Any) -> Response:
    """After a form: the browser asks for another page, so that a reload repeats nothing."""
    return RedirectResponse(url(path, **query), 303)
