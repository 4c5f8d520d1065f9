"""`hmem dead`: the dead letters, that is the tasks that the dispatcher could not process. The owner lists, retries or drops them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, Yes, confirm, connect
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import one_line, shorten, time_text
from shared.wire.values import visible

if TYPE_CHECKING:
    from dispatcher.queue.dead_letters import DeadLetter, DeadLetters

app = application()

#: Characters of a reason and of a text that a list shows.
REASON, TEXT = 80, 60


@app.command()
def dead(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids, or the beginnings of ids.")] = None,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Queue them again, or have their tags carried out, as if they had never been tried."
        ),
    ] = False,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Delete them permanently. A turn that was already stored of one stays stored."),
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="With --retry or --drop: all of them.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Tasks that the dispatcher could not process, oldest first: id, time, chat, reason, and the beginning of the text. With an ID, the whole of
    it; with --retry or --drop they are queued again or deleted."""
    from dispatcher.queue.dead_letters import DeadLetters

    if retry and drop:
        raise InvalidInput("--retry and --drop exclude each other. Leave one of them out.")
    settings = start()
    with closing(connect(settings)) as client:
        letters = DeadLetters(client, settings)
        if not (retry or drop):
            chosen = letters.chosen(ids, every=False) if ids else list(letters.all())
            _show(chosen, settings, whole=bool(ids), json=json)
            return
        chosen = letters.chosen(ids or [], every=every)
        if retry:
            _retry(letters, chosen, json=json)
        else:
            _drop(letters, chosen, settings, yes=yes, json=json)


def _show(letters: Sequence[DeadLetter], settings: Settings, *, whole: bool, json: bool) -> None:
    if json:
        more = [{"content": one.content.decode("utf-8", "replace")} if whole else {} for one in letters]
        print_json([one.to_json() | content for one, content in zip(letters, more, strict=True)])
        return
    for letter in letters:
        typer.echo(_whole(letter, settings) if whole else _line(letter, settings))
    if not whole:
        todo = "Use hmem dead ID, hmem dead --retry ID or hmem dead --drop ID."
        typer.echo(todo if letters else "There are no dead letters.", err=True)


def _whole(letter: DeadLetter, settings: Settings) -> str:
    rows = {
        "id": letter.name,
        "at": _when(letter, settings),
        "chat": letter.chat_id or "unknown",
        "task": letter.task_id or "unknown",
        "why": letter.reason,
        "retry": letter.why_not() or f"hmem dead --retry {letter.name}",
    }
    text = [_plain(line) for line in letter.text.splitlines()]
    return "\n".join([*(f"{name:6} {_plain(value)}" for name, value in rows.items()), "", *text])


def _retry(letters: DeadLetters, chosen: Sequence[DeadLetter], *, json: bool) -> None:
    outcomes = list[dict[str, object]]()
    for letter in chosen:
        try:
            retried, outcome = True, letters.retry(letter)
        except InvalidInput as error:
            retried, outcome = False, str(error)
        outcomes.append({"id": letter.name, "retried": retried, "outcome": outcome})
        if not json:
            typer.echo(f"{letter.name} {outcome}." if retried else outcome, err=not retried)
    if json:
        print_json(outcomes)
    if refused := [str(one["id"]) for one in outcomes if not one["retried"]]:
        raise InvalidInput(f"{len(refused)} of {len(outcomes)} dead letters were not retried: {', '.join(refused)}.")


def _drop(letters: DeadLetters, chosen: Sequence[DeadLetter], settings: Settings, *, yes: bool, json: bool) -> None:
    if not json:
        for letter in chosen:
            typer.echo(_line(letter, settings))
    confirm(f"Drop {len(chosen)} dead letters?", yes=yes or not chosen)
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
    return visible(one_line(text))


def _when(letter: DeadLetter, settings: Settings) -> str:
    return time_text(letter.at, settings.timezone) if letter.at is not None else "unknown time   "
