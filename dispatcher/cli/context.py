"""`hmem context`: exactly what the dispatcher would inject for a message."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.arguments import Batch, Chat, Json, connect, given_chat, print_batch, required, say_notes
from dispatcher.memory.day.open_memory import open_memory
from dispatcher.prompt.preview import preview
from shared.errors import InvalidInput
from shared.system.command import ChatCommand, answer, application, print_json, start
from shared.text.format import counted
from shared.turns.records import loads_object
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.prompt.context import Context
    from shared.config.settings import Settings

app = application()


@app.command(cls=ChatCommand)
def context(
    chat: Chat = "",
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The message; without it, what was injected for the last answer.")
    ] = "",
    who: Annotated[str, typer.Option("--as", help="Who asks, in a group: name or user id.")] = "",
    json: Json = False,
    batch: Batch = None,
    budgets: Annotated[
        list[int] | None,
        typer.Option(min=1, help="With --batch: a budget of tokens; repeatable. Without it: 500, 1000, 2000, 4000."),
    ] = None,
) -> None:
    """Exactly what would be injected for a message, with its tokens and sources."""
    settings = start()
    if batch and (chat or text):
        raise InvalidInput("--batch reads chat and message from the file. Omit CHAT and TEXT.")
    if budgets and not batch:
        raise InvalidInput(
            "--budgets requires --batch: the budget of a single message is MEMORY_TOKENS. Omit --budgets."
        )
    if batch:
        print_batch(settings, batch, 30, budgets or [500, 1000, 2000, 4000], who=who)
        return
    chat_id = given_chat(settings, chat, alone=not text)
    if not text:
        _print_last(settings, chat_id, json=json)
        return
    message = required(text, "TEXT")
    with open_memory(settings) as memory:
        found, slow = preview(memory, settings, connect(settings), chat_id, message, who=who)
    if json:
        print_json({"chat_id": chat_id, "budget": settings.memory_tokens} | found.to_json() | {"notes": slow})
        return
    typer.echo(found.text or "(nothing would be injected)")
    parts = found.to_json()["parts"]
    sizes = ", ".join(f"{part['name']} {part['tokens']}" for part in parts) or "empty"
    if parts:
        sizes += f", headings {found.tokens - sum(part['tokens'] for part in parts)}"
    typer.echo(
        f"\n{found.tokens} of {settings.memory_tokens} tokens ({sizes}); {_hits_used(found)}; "
        f"release {'none yet' if found.release_run is None else found.release_run}; {found.ms:.1f} ms",
        err=True,
    )
    say_notes(found.degraded + slow)


def _print_last(settings: Settings, chat_id: str, *, json: bool) -> None:
    from dispatcher.answering.commands.explanation import why_text

    with closing(connect(settings)) as client:
        raw: Any = client.lindex(keys.why(chat_id), -1)
    answer(loads_object(raw) if raw else None, why_text(raw), json=json)


def _hits_used(found: Context) -> str:
    if found.no_recall_reason:
        return f"no hits used: {found.no_recall_reason}"
    why = f" ({found.decision_reason})" if found.decision_reason else ""
    return (
        f"{counted(len(found.used), 'hit', 'hits')} used{why}, {len(found.cut)} left out (too weak, or over the budget)"
    )
