"""What the commands of `hmem` share: common arguments and notes, answers to a file of questions, and the connection to Redis."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import orjson
import typer

from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput, ReleaseRefused
from shared.system.command import print_bytes, start
from shared.text.format import shorten
from shared.text.times import given_moment
from shared.turns.records import RecordRefused, chat_id_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from redis import Redis

Chat = Annotated[
    str,
    typer.Argument(metavar="CHAT", help="The chat: its id (put -- before a negative one), or its only person's name."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
When = Annotated[
    str | None,
    typer.Option(help="A day or a time: ISO 8601, in CHAT_TIMEZONE; or POSIX seconds."),
]
#: The chat of the terminal; no bot of people has one of this name.
TERMINAL = "console"
#: What a bot may call a chat: a number, `discord:815`, or the terminal's.
_IDENTIFIER = re.compile(rf"-?\d+|[a-z]+:.+|{TERMINAL}")

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Batch = Annotated[Path | None, typer.Option(help="Answer the questions of this JSONL file instead.")]


def required(value: str, name: str) -> str:
    if not value.strip():
        raise InvalidInput(f"{name} is missing. Write what you want to ask.")
    return value


def given_chat(settings: Settings, value: str, *, new: bool = False, rare: bool = False, alone: bool = False) -> str:
    """The id of the chat that CHAT names by its id or name. InvalidInput, with the chats that there are, if none is stored.

    `new`: what can be an id need not be stored. `rare`: Redis or the archive alone may have it, so what is no name is an id. `alone`: more was
    expected, so what is no chat is taken for that, and CHAT for missing.
    """
    chat = given_id(settings, value) if value.strip() else ""
    if (new or rare or not settings.has_day_store) and _IDENTIFIER.fullmatch(chat):
        return chat
    from dispatcher.memory.day.chats import named_chat, those_known
    from dispatcher.memory.day.open_memory import open_memory

    with open_memory(settings) as memory:
        found = named_chat(memory, chat, words=not (rare or alone)) or (chat if rare else "")
        if not found:
            missing = alone or not chat
            wrong = "CHAT is missing." if missing else f"There is no chat {shorten(chat, 60)}."
            raise InvalidInput(f"{wrong} {those_known(memory)}{' Put one before your words.' if alone else ''}")
    if found != chat:
        typer.echo(f"{chat} is chat {found}.", err=True)
    return found


def new_chat(settings: Settings, chat: str) -> list[str]:
    """A sentence if a chat is new, as a mistyped number is; none if there are no others, or while that cannot be read."""
    from redis import RedisError

    from dispatcher.memory.day.chats import all_chats, is_known, those_known
    from dispatcher.memory.day.open_memory import open_memory
    from dispatcher.queue.admission import chats_let_in
    from shared.wire import keys

    if chat in {*settings.allowed, TERMINAL}:  # nothing is opened for that
        return []
    try:
        with closing(connect(settings)) as client:
            begun = client.exists(keys.history(chat), keys.unconsolidated(chat))
            answered = settings.allowed | chats_let_in(client, settings)
        with open_memory(settings) as memory:
            others = bool(all_chats(memory)[0])
            if begun or chat in answered or not (others or answered) or is_known(memory, chat):
                return []
            names = those_known(memory) if others else f"The bot answers {', '.join(sorted(answered))}."
    except (RedisError, HmemError, OSError):
        return []
    return [f"Chat {chat} is new: nothing is stored of it, and no bot answers it. {names}"]


def only_chat_for(settings: Settings, given: str) -> tuple[str, str]:
    """(CHAT, question) of a single argument: a question if it names no chat and there is just one, which need not be named then."""
    from dispatcher.memory.day.chats import all_chats, named_chat
    from dispatcher.memory.day.open_memory import open_memory

    if not settings.has_day_store:
        return given, ""
    with open_memory(settings) as memory:
        chats, _ = all_chats(memory)
        if len(chats) != 1 or _IDENTIFIER.fullmatch(given) or named_chat(memory, given):
            return given, ""
    typer.echo(f"In chat {chats[0].chat_id}, the only one.", err=True)
    return chats[0].chat_id, given


def given_id(settings: Settings, value: str) -> str:
    """CHAT as an id, stored or not; for programs, which never mean a name."""
    try:
        chat = chat_id_of(value)
    except RecordRefused as error:
        raise InvalidInput(f"CHAT {value!r} cannot be a chat id: {error}.") from error
    return _first_number(settings, chat) if chat.startswith("-100") else chat


def start_for(chat: str, *, new: bool = False, rare: bool = False) -> tuple[Settings, str]:
    """The settings, and the chat that CHAT names (`given_chat`)."""
    settings = start()
    return settings, given_chat(settings, chat, new=new, rare=rare)


def _first_number(settings: Settings, supergroup: str) -> str:
    """That of the group which has become this supergroup: all of it is stored under that."""
    from redis import RedisError

    from dispatcher.queue.chats import moved_chats
    from shared.turns.signed import secret_in
    from shared.wire import keys

    with suppress(RedisError, HmemError), closing(connect(settings)) as client:
        moved = moved_chats(cast(dict[bytes, bytes], client.hgetall(keys.MOVED)), secret_in(settings))
        first = next((str(chat) for chat, to in moved.items() if str(to) == supergroup), supergroup)
        if first != supergroup:
            typer.echo(f"The group {supergroup} is stored under its first number, {first}.", err=True)
        return first
    return supergroup


def given_times(since: str | None, until: str | None, zone: ZoneInfo) -> tuple[float | None, float | None]:
    """What --since and --until name, in POSIX seconds: until a day is until its end."""
    end_of_it = until
    if until and "-" in until:
        with suppress(ValueError, OverflowError):
            end_of_it = (date.fromisoformat(until) + timedelta(1)).isoformat()
    first, end = given_moment("--since", since, zone), given_moment("--until", end_of_it, zone)
    if first is not None and end is not None and first >= end:
        raise InvalidInput(f"--since {since} is not before --until {until}. Exchange them, or leave one out.")
    return first, end


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `yes`; InvalidInput without an agreement."""
    if not agreed(question, yes=yes):
        raise InvalidInput(f"{question} Nothing was changed. Run it again with --yes.")


def agreed(question: str, *, yes: bool) -> bool:
    """Whether the answer on a terminal is yes, or `yes` is given."""
    return yes or (sys.stdin.isatty() and typer.confirm(question, err=True))


def connect(settings: Settings) -> Redis:
    from shared.wire.client import COMMAND, open_redis  # most commands read files only

    return open_redis(settings.redis_url, COMMAND)


def sides(run: int | None, *, today: bool) -> str:
    """Where a command looked, for people; `run` is the release's."""
    return " and ".join(filter(None, (f"release {run}" if run is not None else "", "today" if today else "")))


def say_notes(reasons: Sequence[str]) -> None:
    from dispatcher.prompt.context import plain_reason

    for reason in reasons:
        typer.echo(f"note: {plain_reason(reason)}", err=True)


def print_batch(
    settings: Settings, path: Path, k: int, budgets: list[int], *, who: str = "", texts_needed: bool = False
) -> None:
    """`texts_needed`: a release without its texts is an error."""
    from dispatcher.memory.day.open_memory import open_memory
    from dispatcher.prompt.batch import answer_batch

    with open_memory(settings) as memory:
        release = memory.required_release()
        if memory.day.wanted:
            memory.day.open()
        memory.open_vectors()
        if texts_needed and release.text_missing:
            raise ReleaseRefused(release.text_missing)
        for answer in answer_batch(settings, release, memory.day, path, k, budgets, who):
            print_bytes(orjson.dumps(answer))
