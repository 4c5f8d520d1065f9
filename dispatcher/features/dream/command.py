"""`hmem memory changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.arguments import Json, connect, given_chat
from shared.errors import InvalidInput
from shared.system.command import print_json, start

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.features.dream.putting_in_order import Dreaming
    from dispatcher.memory.day.memory import DayMemory

OptionalChat = Annotated[str, typer.Argument(help="Chat id (put -- before a negative one); of all chats if left out.")]
Night = Annotated[int | None, typer.Option(metavar="NIGHT", help="Only the changes of this night.")]
Undo = Annotated[
    list[int] | None, typer.Option(metavar="NUMBER", help="Take back the change that made the memory of this number.")
]
UndoNight = Annotated[int | None, typer.Option(metavar="NIGHT", help="Take back all changes of this night.")]
Accept = Annotated[
    list[str] | None, typer.Option(metavar="NIGHT:NUMBER", help="Of what DREAM=propose proposes: carry it out.")
]
Decline = Annotated[list[str] | None, typer.Option(metavar="NIGHT:NUMBER", help="The same: drop it.")]


def changes(
    chat: OptionalChat = "",
    night: Night = None,
    undo: Undo = None,
    undo_night: UndoNight = None,
    accept: Accept = None,
    decline: Decline = None,
    json: Json = False,
) -> None:
    """What nights have changed of a chat's memories, and what they propose: before, after, and because of which message."""
    from dispatcher.cli.memory import opened_day
    from dispatcher.features.dream.changes import changes_made, changes_proposed
    from dispatcher.features.dream.chat_command import change_text
    from dispatcher.features.dream.putting_in_order import Dreaming
    from dispatcher.features.dream.records import read_proposed
    from shared.text.format import date_text

    settings = start()
    decided = [*((one, True) for one in accept or []), *((one, False) for one in decline or [])]
    if not chat and (undo or decided):
        raise InvalidInput("Numbers are those of one chat: name the chat, too.")
    with opened_day(settings, vectors=bool(accept)) as day:
        client, dreaming, found = connect(settings), Dreaming(day), list[Any]()
        for chat_id in [given_chat(chat)] if chat else _chats(day):
            made = [one.number for one in changes_made(day, chat_id, undo_night)] if undo_night is not None else []
            _take_back(dreaming, chat_id, [*(undo or []), *made])
            _decide(dreaming, client, chat_id, decided)
            both = [*changes_proposed(dreaming, read_proposed(client, chat_id)), *changes_made(day, chat_id)]
            found += [(chat_id, one) for one in both if night in (None, one.night)]
        if json:
            print_json([{"chat_id": chat_id, **one.to_json()} for chat_id, one in found])
            return
        for chat_id, one in found:
            typer.echo(f"Chat {chat_id}. {change_text(one, lambda at: date_text(at, settings.timezone))}\n")
        if not found:
            typer.echo(
                "No night has changed anything." if night is None else f"Night {night} has changed nothing.", err=True
            )


def _take_back(dreaming: Dreaming, chat_id: str, numbers: list[int]) -> None:
    from dispatcher.memory.day.requests import owner_task

    for number in numbers:
        if not dreaming.take_back(owner_task(chat_id), [number]):
            raise InvalidInput(
                f"No night made the memory of number {number}. hmem memory changes {chat_id} shows what can be taken back."
            )


def _decide(dreaming: Dreaming, client: Redis, chat_id: str, decided: list[tuple[str, bool]]) -> None:
    from dispatcher.features.dream.records import decide

    for given, agreed in decided:
        if reason := decide(client, dreaming, chat_id, *_proposal(given), agreed=agreed):
            raise InvalidInput(f"Proposal {given} was not carried out: {reason}.")


def _chats(day: DayMemory) -> list[str]:
    return sorted({memory.chat_id for memory in day.memories.every()})


def _proposal(given: str) -> tuple[int, int]:
    run, _, number = given.partition(":")
    if not (run.isdecimal() and number.isdecimal()):
        raise InvalidInput(
            f"{given!r} is no proposal. Write it like 17:2, as hmem memory changes shows night and number."
        )
    return int(run), int(number)
