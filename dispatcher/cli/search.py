"""`hmem search`: ranked hits of release, day and typed memories, without counting as access."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from dispatcher.cli.arguments import Batch, Json, When, given_chat, print_batch, required, say_notes, sides
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.open_memory import open_memory
from dispatcher.memory.tombstones import hidden_by
from dispatcher.memory.typed.memories import SHOWN_COSINE
from dispatcher.memory.typed.search import MemoryHit, among, found_memories, memory_json
from dispatcher.memory.typed.text import line
from dispatcher.prompt.context import hit_json
from shared.config.settings import Settings
from shared.errors import InvalidInput, ReleaseRefused, StoreUnavailable
from shared.release.manifest import no_release
from shared.search.types import HiddenTurns, Query
from shared.system.command import application, print_json, start
from shared.text.format import one_line, shorten, time_text
from shared.text.times import given_moment
from shared.turns.origin_words import replying

if TYPE_CHECKING:
    from shared.search.day_items import DayItems
    from shared.search.types import Hit, Recalled

app = application()


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search, and where it looked."""

    recalled: Recalled
    run: int | None  # of the release
    today: bool
    rows: list[Hit | MemoryHit] = field(default_factory=list)  # turns and typed memories


def find(settings: Settings, query: Query) -> SearchResult:
    """The best of the release's and the day's turns and of the memories, as many as the query asks for.

    Reads the day's turns and the hidden ones itself. Finds nothing that is forgotten; InvalidInput if nothing is stored anywhere.
    """
    with open_memory(settings) as memory:
        release, day = memory.release(), memory.day
        memory.open_vectors()
        if release:
            release.open_texts()
        if release and release.text_missing:
            raise ReleaseRefused(release.text_missing)
        hidden = HiddenTurns(*hidden_by(day.forgotten.of(query.chat_id)))
        items, notes = _items(day, query.chat_id)
        today = day.wanted and not notes
        memories = day.remembering.of_chat(query.chat_id) if today else None
        if release is None:
            if not items and not (memories and memories.memories):
                raise InvalidInput(no_release(settings.hmem_memory_dir))
            notes = [no_release(settings.hmem_memory_dir), *notes]
        recalled = day.search(release, replace(query, day=items, hidden=hidden))
        recalled = replace(recalled, degraded=recalled.degraded + notes)
        found = found_memories(memories, query, day.embedder.query(query.text), SHOWN_COSINE) if memories else []
        return SearchResult(recalled, release.run if release else None, today, among(recalled.hits, found, query.k))


def _items(day: DayMemory, chat_id: str) -> tuple[DayItems | None, list[str]]:
    """(the chat's turns of the day, why they are not available)."""
    try:
        return day.items(chat_id) if day.wanted else None, []
    except StoreUnavailable as error:
        return None, [f"no memory of the day: {error}"]


@app.command(context_settings={"ignore_unknown_options": True})
def search(
    chat: Annotated[str, typer.Argument(help="Chat id; not with --batch.")] = "",
    query: Annotated[str, typer.Argument(help="What to look for.")] = "",
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
    """Ranked hits in one chat, from last night's release, today's turns and typed memories, with their scores."""
    settings = start()
    if batch and (chat or query or now or since or until):
        raise InvalidInput("--batch reads chat, question and time from the file. Omit CHAT, QUERY and the times.")
    if batch:
        print_batch(settings, batch, k, [], texts_needed=True)
        return
    from dispatcher.memory.dates.user_dates import since as since_when
    from dispatcher.memory.dates.user_dates import until as until_when

    zone, clock = settings.timezone, time.time()
    wanted = Query(
        given_chat(chat),
        required(query, "QUERY"),
        k,
        now=given_moment("--now", now, zone),
        since=since_when(since, clock, zone),
        until=until_when(until, clock, zone),
    )
    found = find(settings, wanted)
    recalled = found.recalled
    if json:
        rows = [_row_json(row) for row in found.rows]
        print_json({"release": found.run, "ms": round(recalled.ms, 2), "degraded": recalled.degraded, "hits": rows})
        return
    for number, row in enumerate(found.rows, start=1):
        _print_row(number, row, settings)
    times = f"; times in {settings.chat_timezone}" if found.rows else ""
    typer.echo(
        f"{len(found.rows)} hits in {recalled.ms:.1f} ms from {sides(found.run, today=found.today)}{times}", err=True
    )
    say_notes(recalled.degraded)


def _row_json(row: Hit | MemoryHit) -> dict[str, Any]:
    return memory_json(row, ZoneInfo("UTC")) if isinstance(row, MemoryHit) else hit_json(row)


def _print_row(number: int, hit: Hit | MemoryHit, settings: Settings) -> None:
    head = f"{number:2}. {hit.score:.2f} (words {_score(hit.words)}, meaning {_score(hit.meaning)})"
    if isinstance(hit, MemoryHit):
        memory = hit.memory
        typer.echo(f"{head}  {time_text(memory.created, settings.timezone)}  memory {memory.number}")
        typer.echo(f"      {hit.label}: {line(memory, time.time(), settings.timezone).removeprefix('- ')}")
        return
    typer.echo(f"{head}  {time_text(hit.chunk.started_at, settings.timezone)}  {hit.chunk.chunk_id}")
    if hit.question:
        typer.echo(f"      asked: {shorten(one_line(hit.question), 160)}")
    typer.echo(f"      {hit.who}{replying(hit.chunk.origin, 160)}: {shorten(one_line(hit.chunk.text), 300)}")
    if hit.also:
        typer.echo(f"      repeated in: {', '.join(hit.also)}")


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
