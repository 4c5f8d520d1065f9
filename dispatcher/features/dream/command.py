"""`hmem memory changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.arguments import Chat, Json, connect, given_chat
from shared.errors import InvalidInput
from shared.system.command import print_json, start

Number = Annotated[
    list[int] | None, typer.Option(metavar="NUMBER", help="Take back the change that made the memory of this number.")
]
Night = Annotated[int | None, typer.Option(metavar="NIGHT", help="Only the changes of this night.")]
OfNight = Annotated[
    int | None, typer.Option("--undo-night", metavar="NIGHT", help="Take back all changes of this night.")
]
Decided = Annotated[
    list[str] | None, typer.Option(metavar="NIGHT:NUMBER", help="Of what DREAM=propose proposes: carry it out.")
]
Declined = Annotated[list[str] | None, typer.Option(metavar="NIGHT:NUMBER", help="The same: drop it.")]


def changes(
    chat: Chat,
    night: Night = None,
    undo: Number = None,
    undo_night: OfNight = None,
    accept: Decided = None,
    decline: Declined = None,
    json: Json = False,
) -> None:
    """What nights have changed of a chat's memories, and what they propose: before, after, and because of which message."""
    from dispatcher.cli.memory import opened_day
    from dispatcher.features.dream.changes import changes_made, changes_proposed
    from dispatcher.features.dream.chat_command import change_text
    from dispatcher.features.dream.putting_in_order import Dreaming
    from dispatcher.features.dream.records import decide, read_dreams
    from dispatcher.memory.day.requests import owner_task
    from shared.text.format import date_text

    settings, chat_id = start(), given_chat(chat)
    with opened_day(settings, vectors=bool(accept)) as day:
        client, dreaming = connect(settings), Dreaming(day)
        numbers = [*(undo or [])]
        if undo_night is not None:
            numbers += [one.number for one in changes_made(day, chat_id, undo_night)]
        for number in numbers:
            if not dreaming.take_back(owner_task(chat_id), [number]):
                raise InvalidInput(
                    f"No night made the memory of number {number}. hmem memory changes {chat_id} shows what can be taken back."
                )
        for given, agreed in [*((one, True) for one in accept or []), *((one, False) for one in decline or [])]:
            run, number = _proposal(given)
            if reason := decide(client, dreaming, chat_id, run, number, agreed=agreed):
                raise InvalidInput(f"Proposal {given} was not carried out: {reason}.")
        proposed = changes_proposed(dreaming, read_dreams(client, chat_id))
        found = [one for one in [*proposed, *changes_made(day, chat_id)] if night in (None, one.night)]
        if json:
            print_json([one.to_json() for one in found])
            return
        for one in found:
            typer.echo(change_text(one, lambda at: date_text(at, settings.timezone)) + "\n")
        if not found:
            typer.echo(
                "No night has changed anything." if night is None else f"Night {night} has changed nothing.", err=True
            )


def _proposal(given: str) -> tuple[int, int]:
    run, _, number = given.partition(":")
    if not (run.isdecimal() and number.isdecimal()):
        raise InvalidInput(
            f"{given!r} is no proposal. Write it like 17:2, as hmem memory changes shows night and number."
        )
    return int(run), int(number)
