"""`hmem dead`: the dead letters, that is the tasks that the dispatcher could not process. The owner lists, retries or drops them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import one_line, shorten, time_text
from shared.wire.values import shown

if TYPE_CHECKING:
    from dispatcher.queue.dead_letters import DeadLetter, DeadLetters

app = application("Tasks that the dispatcher could not process: list, retry, drop.")

#: Characters of a reason and of a text that a list shows.
REASON, TEXT = 80, 60

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids, or the beginnings of ids.")]
Every = Annotated[bool, typer.Option("--all", help="All of them.")]


@contextmanager
def _opened() -> Iterator[tuple[Settings, DeadLetters]]:
    from dispatcher.queue.dead_letters import DeadLetters

    settings = start()
    with closing(connect(settings)) as client:
        yield settings, DeadLetters(client, settings.task_bytes)


@app.command("list")
def list_(
    id_: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one, with everything that was stored of it.")
    ] = None,
    json: Json = False,
) -> None:
    """Every dead letter, oldest first: id, time, chat, reason and the beginning of its text; or one of them whole."""
    if id_ is not None:
        _show(id_, json=json)
        return
    with _opened() as (settings, letters):
        if json:
            print_json([letter.to_json() for letter in letters.all()])
            return
        found = False
        for letter in letters.all():
            found = True
            typer.echo(_line(letter, settings))
    typer.echo("Use hmem dead list ID, retry ID or drop ID." if found else "There are no dead letters.", err=True)


def _show(id_: str, *, json: bool) -> None:
    with _opened() as (settings, letters):
        (letter,) = letters.chosen([id_], every=False)
    if json:
        print_json(letter.to_json() | {"content": letter.content.decode("utf-8", "replace")})
        return
    rows = {
        "id": letter.name,
        "at": _when(letter, settings),
        "chat": letter.chat_id or "unknown",
        "task": letter.task_id or "unknown",
        "why": letter.reason,
        "retry": letter.why_not(settings.task_bytes) or f"hmem dead retry {letter.name}",
    }
    for name, value in rows.items():
        typer.echo(f"{name:6} {_plain(value)}")
    typer.echo("\n" + "\n".join(_plain(line) for line in letter.text.splitlines()))


@app.command()
def retry(ids: Ids = None, every: Every = False, json: Json = False) -> None:
    """Put tasks back into the queue, and tags back in line for the dispatcher, as if they had never been tried."""
    outcomes: list[dict[str, object]] = []
    with _opened() as (_, letters):
        for letter in letters.chosen(ids or [], every=every):
            try:
                outcomes.append({"id": letter.name, "retried": True, "outcome": letters.retry(letter)})
            except InvalidInput as error:
                outcomes.append({"id": letter.name, "retried": False, "outcome": str(error)})
            if not json:
                last = outcomes[-1]
                typer.echo(
                    f"{letter.name} {last['outcome']}." if last["retried"] else last["outcome"], err=not last["retried"]
                )
    if json:
        print_json(outcomes)
    if refused := [str(one["id"]) for one in outcomes if not one["retried"]]:
        raise InvalidInput(f"{len(refused)} of {len(outcomes)} dead letters were not retried: {', '.join(refused)}.")
    if not outcomes and not json:
        typer.echo("There are no dead letters.", err=True)


@app.command()
def drop(
    ids: Ids = None,
    every: Every = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Delete dead letters permanently. A turn that was already stored from such a message stays stored."""
    with _opened() as (settings, letters):
        chosen = letters.chosen(ids or [], every=every)
        if not json:
            for letter in chosen:
                typer.echo(_line(letter, settings))
        if chosen and not yes and not (sys.stdin.isatty() and typer.confirm(f"Drop {len(chosen)} dead letters?")):
            raise InvalidInput("Nothing was dropped. Run it again with --yes.")
        dropped = [letter.name for letter in chosen if letters.drop(letter)]
    if json:
        print_json({"dropped": dropped})
    else:
        typer.echo(f"{len(dropped)} dropped.", err=True)


def _line(letter: DeadLetter, settings: Settings) -> str:
    text, reason = shorten(_plain(letter.text), TEXT), shorten(_plain(letter.reason), REASON)
    return f"{letter.name}  {_when(letter, settings)}  chat {_plain(letter.chat_id or 'unknown')}  {reason}: {text}"


def _plain(text: str) -> str:
    """One line without terminal control characters: the text comes from strangers."""
    return shown(one_line(text), characters=len(text) + 1)


def _when(letter: DeadLetter, settings: Settings) -> str:
    return time_text(letter.at, settings.timezone) if letter.at is not None else "unknown time   "
