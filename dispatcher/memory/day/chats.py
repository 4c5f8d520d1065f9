"""Which chats there are, what they are called, and which one a person means."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from dispatcher.memory.day.open_memory import OpenedMemory
from shared.errors import HmemError, InvalidInput, StoreUnavailable
from shared.text.format import shorten
from shared.turns.message_origin import is_group
from shared.turns.speakers import COMMAND_LINE, Speaker, is_named, plain_name

#: Chats that an error names, and characters of a name.
NAMED, NAME_CHARACTERS = 10, 60


@dataclass(frozen=True)
class ChatLine:
    """A chat in the list: turns in the release, turns in the day store, and when the newest of those was said, or noted if
    there are none (POSIX seconds).

    `name`: see `chat_name`; empty if it was not looked up, too.
    """

    chat_id: str
    released: int
    today: int
    newest: float | None
    name: str = ""


def all_chats(memory: OpenedMemory, sees: Callable[[str], bool] = lambda _: True) -> tuple[list[ChatLine], list[str]]:
    """(the chats that may be seen, those with the newest turns of the day first, then by id; why some may be missing)."""
    notes: list[str] = []
    release, why = memory.release_or_reason("The release cannot be read")
    notes += [why] if why else []
    released: dict[str, int] = {}
    day: dict[str, tuple[int, float]] = {}
    try:
        released = release.chats() if release else {}
    except HmemError as error:
        notes.append(str(error))
    try:
        if memory.day.wanted:  # an import may have brought facts alone
            noted = {chat_id: (0, at) for chat_id, at in memory.day.memories.chats().items()}
            day = noted | memory.day.turns.chats()
    except StoreUnavailable as error:
        notes.append(str(error))
    lines = [
        ChatLine(chat_id, released.get(chat_id, 0), *day.get(chat_id, (0, None)))
        for chat_id in sorted(filter(sees, released.keys() | day.keys()))
    ]
    return sorted(lines, key=lambda one: (-(one.newest or 0.0), -one.released, one.chat_id)), notes


def named_chats(memory: OpenedMemory) -> tuple[list[ChatLine], list[str]]:
    """The same with names, and with the newest turn of the release where the day has none. Slow for thousands of chats."""
    lines, notes = all_chats(memory)
    return [_named(memory, line) for line in lines], notes


def chat_name(memory: OpenedMemory, chat_id: str) -> str:
    """What a person calls a chat: who writes in it, such as `Noor`, `Ilya, Marta, Sam`, or `Ben (group)`; empty if nobody has a name."""
    release, _ = memory.release_or_reason("")
    speakers = set[Speaker]()
    for stored in (memory.day.turns if memory.day.wanted else None, release):
        with suppress(HmemError, OSError):
            speakers |= stored.speakers(chat_id) if stored else set()
    named = {one for role, one, user in speakers if role == "user" and is_named(role, one) and user != COMMAND_LINE}
    people = sorted({plain_name(one) for one in named} - {""}, key=str.casefold)
    alone = len(people) == 1 and is_group(chat_id)
    return shorten(", ".join(people), NAME_CHARACTERS) + (" (group)" if alone else "")


def _named(memory: OpenedMemory, line: ChatLine) -> ChatLine:
    release, _ = memory.release_or_reason("")
    newest = line.newest
    if release is not None and line.released and not newest:
        with suppress(HmemError):
            newest = max(release.times(line.chat_id).values())
    return replace(line, name=chat_name(memory, line.chat_id), newest=newest)


def is_known(memory: OpenedMemory, chat_id: str) -> bool:
    """Whether the chat has turns or memories. HmemError or OSError if that cannot be read."""
    if memory.day.wanted and (memory.day.turns.newest(chat_id, 1) or memory.day.memories.count(chat_id)):
        return True
    release = memory.release()
    return release is not None and release.has(chat_id)


def named_chat(memory: OpenedMemory, given: str, *, words: bool = False) -> str | None:
    """The id of the chat with this id, or else with this name; None if there is none. InvalidInput if several have the name.

    `words`: one word of the only person's name is enough. What cannot be read now makes no chat unknown: then it is taken for an id.
    """
    try:
        if not given or is_known(memory, given):
            return given or None
        chats, _ = named_chats(memory)
    except (HmemError, OSError):
        return given
    called = [(one.chat_id, one.name.casefold()) for one in chats if one.name]
    found = [chat_id for chat_id, name in called if name == given.casefold()]
    if words and not found:
        found = [chat_id for chat_id, name in called if "," not in name and given.casefold() in name.split()]
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} chats are called {given}: {', '.join(found)}. Give the id of one of them.")
    return found[0] if found else None


def those_known(memory: OpenedMemory) -> str:
    """A sentence that names the chats, or some of them."""
    chats, notes = all_chats(memory)
    if not chats:
        return " ".join(["Nothing is stored of any chat yet.", *notes])
    first = (_named(memory, one) for one in chats[:NAMED])
    some = ", ".join(f"{one.chat_id} ({one.name})" if one.name else one.chat_id for one in first)
    return (
        f"The chats are {some}."
        if len(chats) <= NAMED
        else f"Some of {len(chats)} chats: {some}; hmem chats lists all."
    )
