"""`hmem memory changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.arguments import Json, connect, given_chat
from shared.errors import InvalidInput
from shared.system.command import print_json, start

OptionalChat = Annotated[str, typer.Argument(help="Chat id (put -- before a negative one); of all chats if left out.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        help="What to do, as in the chat: undo NUMBER, undo night NIGHT, yes NIGHT NUMBER, no NIGHT NUMBER."
    ),
]
Night = Annotated[int | None, typer.Option(metavar="NIGHT", help="Only the changes of this night.")]


def changes(chat: OptionalChat = "", words: Words = None, night: Night = None, json: Json = False) -> None:
    """What nights have changed of a chat's memories, and what they propose: before, after, and because of which message."""
    from dispatcher.cli.memory import opened_day
    from dispatcher.features.dream.changes import act, all_changes, change_text
    from dispatcher.features.dream.putting_in_order import Dreaming
    from dispatcher.memory.day.requests import owner_task
    from shared.text.format import date_text

    settings = start()
    chosen = given_chat(settings, chat) if chat or words else ""
    with opened_day(settings, vectors=bool(words)) as day:
        client, dreaming = connect(settings), Dreaming(day)
        if words:
            said = act(dreaming, client, owner_task(chosen), " ".join(words))
            if said is None:
                raise InvalidInput(
                    "Write undo 2, undo night 17, yes 17 2 or no 17 2, as the changes show night and number."
                )
            typer.echo(said, err=True)
        chats = [chosen] if chosen else sorted({memory.chat_id for memory in day.memories.every()})
        found = [(chat_id, one) for chat_id in chats for one in all_changes(dreaming, client, chat_id, night)]
        if json:
            print_json([{"chat_id": chat_id, **one.to_json()} for chat_id, one in found])
            return
        for chat_id, one in found:
            typer.echo(f"Chat {chat_id}. {change_text(one, lambda at: date_text(at, settings.timezone))}\n")
        if not found:
            nothing = "No night has changed anything." if night is None else f"Night {night} has changed nothing."
            typer.echo(nothing, err=True)
