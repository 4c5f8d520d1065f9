"""`hmem chats`: which chats there are; `hmem history`: the turns of one in the order of time, or what the last night made of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.arguments import Chat, Json, When, given_times, say_notes, sides, start_for
from shared.release.manifest import no_release
from shared.system.command import ChatCommand, application, print_json, start
from shared.text.format import counted, time_text
from shared.turns.origin_words import labels_of, replying
from shared.wire.values import visible

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.config.settings import Settings
    from shared.turns.records import Turn

#: Characters that are shown of the message to which a turn replies.
REPLIED = 160


app = application()


@app.command(cls=ChatCommand)
def history(
    chat: Chat = "",
    since: When = None,
    until: When = None,
    contains: Annotated[
        str | None,
        typer.Option(
            help="Only turns with all of these words, in any case, accent or (English, Russian) ending; phrases in quotation marks."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of turns: the newest.")] = 50,
    summary: Annotated[bool, typer.Option("--summary", help="Last night's summary of the chat instead.")] = False,
    json: Json = False,
) -> None:
    """The turns of one chat in the order of time, from last night's release and from today; without forgotten ones."""
    from dispatcher.memory.day.history import look_back
    from dispatcher.memory.day.open_memory import open_memory
    from shared.search.history import HistoryQuery

    settings, chat_id = start_for(chat)
    if summary:
        _print_summary(settings, chat_id, json=json)
        return
    zone = settings.timezone
    asked = HistoryQuery(chat_id, limit, *given_times(since, until, zone), contains)
    with open_memory(settings) as memory:
        release = memory.release()
        result, run = look_back(memory.day, release, asked), release.run if release else None
    if result.away and not result.known:
        raise result.away
    turns, notes = result.found.turns, [f"no memory of the day: {result.away}"] if result.away else []
    notes += [no_release(settings.hmem_memory_dir)] if run is None else []
    labels = labels_of(turns, result.speakers)
    if json:
        rows = [_row(turn, who, zone) for turn, who in zip(turns, labels, strict=True)]
        head = {"chat_id": chat_id, "release": run, "more": result.found.more, "degraded": notes}
        print_json(head | {"turns": rows})
        return
    for turn, who in zip(turns, labels, strict=True):
        speaker, text = who + replying(turn.origin, REPLIED), "\n      ".join(turn.remembered.splitlines())
        typer.echo(f"{time_text(turn.timestamp, zone)}  {visible(speaker, but='')}: {visible(text)}")
    times = f"; times in {settings.chat_timezone}" if turns else ""
    more = "; older ones are left out (--limit)" if result.found.more else ""
    typer.echo(f"{counted(len(turns), 'turn')} from {sides(run, today=result.today)}{times}{more}", err=True)
    say_notes(notes)


def _print_summary(settings: Settings, chat_id: str, *, json: bool) -> None:
    from dispatcher.memory.day.open_memory import open_memory
    from dispatcher.prompt.assemble import summary_of

    with open_memory(settings) as memory:
        release = memory.required_release()
        text, why = summary_of(release, chat_id, memory.day.forgotten)
    if json:
        print_json({"chat_id": chat_id, "release": release.run, "summary": text or None, "degraded": why})
        return
    typer.echo(visible("\n".join(text.splitlines())) or "(no summary)")
    say_notes(why)


def _row(turn: Turn, who: str, zone: ZoneInfo) -> dict[str, Any]:
    return {
        "turn_id": turn.turn_id,
        "role": turn.role,
        "speaker": turn.speaker,
        "user_id": turn.user_id,
        "label": who,
        "timestamp": turn.timestamp,
        "date": datetime.fromtimestamp(turn.timestamp, zone).isoformat(timespec="seconds"),
        "text": turn.remembered,
        **turn.origin.to_json(),
    }


@app.command()
def chats(json: Json = False) -> None:
    """Every chat: id, when something was last said, turns in long-term memory and of the last days, and who writes in it."""
    from dispatcher.memory.day.chats import named_chats
    from dispatcher.memory.day.open_memory import open_memory

    settings = start()
    with open_memory(settings) as memory:
        found, notes = named_chats(memory)
    if json:
        print_json({"chats": list(map(asdict, found)), "degraded": notes})
        return
    for line in found:
        last = time_text(line.newest, settings.timezone) if line.newest else ""
        turns = f"{counted(line.released, 'turn')} in long-term memory, {line.today:,} of the last days"
        typer.echo(f"{line.chat_id:>15}  {last:16}  {line.name or '(no name)'}: {turns}")
    typer.echo(f"{counted(len(found), 'chat')}; times in {settings.chat_timezone}", err=True)
    say_notes(notes)
