"""`hmem search`: hits of release, day and typed memories, best first, without counting as access."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from dispatcher.cli.arguments import (
    Batch,
    Chat,
    Json,
    When,
    given_chat,
    given_times,
    only_chat_for,
    print_batch,
    required,
    say_notes,
    sides,
)
from dispatcher.memory.day.open_memory import open_memory
from dispatcher.memory.day.search import SearchResult
from dispatcher.memory.day.search import find as search_memory
from dispatcher.memory.typed.search import MemoryHit, memory_json
from dispatcher.memory.typed.text import line
from dispatcher.prompt.context import hit_json
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.search.types import Query
from shared.system.command import ChatCommand, application, print_json, start
from shared.text.format import counted, one_line, shorten, time_text
from shared.text.times import given_moment
from shared.turns.origin_words import replying

if TYPE_CHECKING:
    from shared.search.types import Hit

app = application()


def find(settings: Settings, query: Query) -> SearchResult:
    """The search in a memory that is opened for it alone."""
    with open_memory(settings) as memory:
        return search_memory(memory, settings, query)


@app.command(cls=ChatCommand)
def search(
    chat: Chat = "",
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, max=200, help="Maximum number of hits.")] = 10,
    json: Json = False,
    batch: Batch = None,
    now: Annotated[
        str | None,
        typer.Option(help="The time from which `last week` is counted: ISO 8601 or POSIX seconds; not with --batch."),
    ] = None,
    since: When = None,
    until: When = None,
) -> None:
    """The best hits in one chat, from last night's release, today's turns and typed memories; --json has the parts of their rank."""
    settings = start()
    if batch and (chat or query or now or since or until):
        raise InvalidInput("--batch reads chat, question and time from the file. Omit CHAT, QUERY and the times.")
    if batch:
        print_batch(settings, batch, k, [], texts_needed=True)
        return
    zone = settings.timezone
    first, end = given_times(since, until, zone)
    if chat and not query:
        chat, query = only_chat_for(settings, chat)
    wanted = Query(
        given_chat(settings, chat, alone=not query),
        required(query, "QUERY"),
        k,
        now=given_moment("--now", now, zone),
        since=first,
        until=end,
    )
    found = find(settings, wanted)
    recalled = found.recalled
    if json:
        utc = ZoneInfo("UTC")
        rows = [memory_json(row, utc) if isinstance(row, MemoryHit) else hit_json(row) for row in found.rows]
        print_json({"release": found.run, "ms": round(recalled.ms, 2), "degraded": recalled.degraded, "hits": rows})
        return
    for number, row in enumerate(found.rows, start=1):
        _print_row(number, row, settings)
    times = f"; times in {settings.chat_timezone}" if found.rows else ""
    typer.echo(
        f"{counted(len(found.rows), 'hit', 'hits')} in {recalled.ms:.1f} ms from {sides(found.run, today=found.today)}{times}",
        err=True,
    )
    say_notes(recalled.degraded)


def _print_row(number: int, hit: Hit | MemoryHit, settings: Settings) -> None:
    head = f"{number:2}."
    if isinstance(hit, MemoryHit):
        memory = hit.memory
        typer.echo(f"{head}  {time_text(memory.created, settings.timezone)}  memory {memory.number}")
        typer.echo(f"      {hit.label}: {line(memory, time.time(), settings.timezone)}")
        return
    typer.echo(f"{head}  {time_text(hit.chunk.started_at, settings.timezone)}  {hit.chunk.chunk_id}")
    if hit.question:
        typer.echo(f"      asked: {shorten(one_line(hit.question), 160)}")
    typer.echo(f"      {hit.who}{replying(hit.chunk.origin, 160)}: {shorten(one_line(hit.chunk.text), 300)}")
    if hit.also:
        typer.echo(f"      repeated in: {', '.join(hit.also)}")
