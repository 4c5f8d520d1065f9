"""`hmem`: the dispatcher and the owner's view of memory."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import orjson
import typer

from dispatcher.cli.arguments import Chat, Json, connect, given_chat
from dispatcher.cli.dead import app as dead_app
from dispatcher.cli.export import export
from dispatcher.cli.forget import forget, owner_key
from dispatcher.cli.history import history
from dispatcher.cli.memory import app as memory_app
from dispatcher.cli.release import app as release_app
from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.errors import AnswerFailed, HmemError, InvalidInput, MemoryStale, ReleaseRefused
from shared.system.command import end_with, print_bytes, print_json, run_command, start
from shared.system.files import own_root
from shared.text.format import one_line, shorten, time_text, zoned_text
from shared.text.times import given_moment
from shared.turns.origin_words import replying

if TYPE_CHECKING:
    from dispatcher.health.status import Status
    from dispatcher.memory.typed.search import MemoryHit
    from dispatcher.prompt.context import Context
    from shared.search.types import Hit

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)
app.add_typer(release_app, name="release")
app.add_typer(memory_app, name="memory")
app.add_typer(dead_app, name="dead")
app.command(context_settings={"ignore_unknown_options": True})(history)
app.command()(export)
app.command()(forget)
app.command("owner-key")(owner_key)

When = Annotated[
    str | None,
    typer.Option(help="A time in words (last Friday, gestern) or ISO 8601, both in CHAT_TIMEZONE; or POSIX seconds."),
]
Batch = Annotated[Path | None, typer.Option(help="Answer the questions of this JSONL file instead.")]


def main() -> None:
    run_command(app)


@app.command()
def run() -> None:
    """The dispatcher, in the foreground."""
    settings = start("dispatcher")
    own_root(settings.hmem_state_dir, OURS["hmem_state_dir"])
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from dispatcher.answering.task_handler import TaskHandler
    from dispatcher.answering.worker import Worker
    from dispatcher.answering.worker import connect as connect_patiently
    from dispatcher.claude.client import ClaudeCli
    from dispatcher.health.metrics import open_metrics
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.session_summary import SummaryWriter, in_thread
    from dispatcher.releases.served import ServedRelease

    served, client, metrics = ServedRelease(settings), connect_patiently(settings), open_metrics(settings)
    claude = ClaudeCli(settings)
    loop = asyncio.get_running_loop()
    writer = SummaryWriter(settings, lambda prompt: in_thread(claude, settings, prompt, loop))
    day = DayMemory(settings, served.reading, writer)
    handler = TaskHandler(settings, client, claude, day, served, metrics)
    worker = Worker(settings, client, handler)
    probing = asyncio.create_task(claude.flags())  # while the rest starts; the first question waits for it
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    try:
        await worker.run()
    finally:
        probing.cancel()
        await client.aclose()
        await asyncio.to_thread(metrics.close)


@app.command()
def telegram() -> None:
    """The Telegram bot, in the foreground."""
    settings = start("bot")
    from dispatcher.telegram.bot import serve

    asyncio.run(serve(settings))


@app.command()
def mcp(
    chat: Annotated[str, typer.Option(help="The chat whose memory it is; --chat=-100 for a negative one.")],
) -> None:
    """One chat's memory as MCP tools, over standard input and output."""
    settings = start("dispatcher")
    from dispatcher.mcp_server.server import serve

    serve(settings, given_chat(chat))


@app.command(context_settings={"ignore_unknown_options": True})
def ask(
    chat: Chat,
    text: Annotated[str, typer.Argument(help="The message.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 600.0,
    json: Json = False,
) -> None:
    """Enqueue a message as the bot would, wait, and print the answer. Exit code 69 if the dispatcher could not answer it."""
    from dispatcher.cli.ask import ask as enquire
    from shared.system.signing_key import signing_key

    settings = start()
    if not text.strip():
        raise InvalidInput("There is nothing to ask. Give the message as the second argument.")
    secret = signing_key(settings, "no answer could be verified")
    result = enquire(
        connect(settings),
        secret,
        given_chat(chat),
        text,
        timeout_seconds=timeout,
        task_bytes=settings.task_bytes,
    )
    if json:
        answer = {"output": result.output, "completed_at": result.completed_at}
        print_json(answer | {"usage": result.usage, "error": result.error})
    if result.error:
        raise AnswerFailed(result.output)
    if not json:
        typer.echo(result.output)


@app.command(context_settings={"ignore_unknown_options": True})
def search(
    chat: Annotated[str, typer.Argument(help="Chat id; not with --batch.")] = "",
    query: Annotated[str, typer.Argument(help="What to look for.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, max=200, help="Hits at most.")] = 10,
    json: Json = False,
    batch: Batch = None,
    now: Annotated[
        str | None, typer.Option(help="What `last week` counts from: ISO 8601 or POSIX seconds; not with --batch.")
    ] = None,
    since: When = None,
    until: When = None,
) -> None:
    """Ranked hits in one chat, of last night's release, of today and of what is kept for good, with their scores."""
    settings = start()
    if batch and (chat or query or now or since or until):
        raise InvalidInput("--batch takes chat, question and time from the file. Leave CHAT, QUERY and times out.")
    if batch:
        _print_batch(settings, batch, k, [], texts_needed=True)
        return
    from dispatcher.cli.search import find
    from dispatcher.memory.dates.given import since as since_when
    from dispatcher.memory.dates.given import until as until_when
    from shared.search.types import Query

    zone, clock = settings.timezone, time.time()
    wanted = Query(
        given_chat(chat),
        _required(query, "QUERY"),
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
    times = f"; times of {settings.chat_timezone}" if found.rows else ""
    typer.echo(f"{len(found.rows)} hits in {recalled.ms:.1f} ms from {found.asked}{times}", err=True)
    _say_degraded(recalled.degraded)


def _row_json(row: Hit | MemoryHit) -> dict[str, Any]:
    from dispatcher.memory.typed.search import MemoryHit, memory_json
    from dispatcher.prompt.context import hit_json

    return memory_json(row, ZoneInfo("UTC")) if isinstance(row, MemoryHit) else hit_json(row)


def _print_row(number: int, hit: Hit | MemoryHit, settings: Settings) -> None:
    from dispatcher.memory.typed.search import MemoryHit

    head = f"{number:2}. {hit.score:.2f} (words {_score(hit.words)}, meaning {_score(hit.meaning)})"
    if isinstance(hit, MemoryHit):
        from dispatcher.memory.typed.text import line

        memory = hit.memory
        typer.echo(f"{head}  {time_text(memory.created, settings.timezone)}  memory {memory.number}")
        typer.echo(f"      {hit.label}: {line(memory, time.time(), settings.timezone).removeprefix('- ')}")
        return
    typer.echo(f"{head}  {time_text(hit.chunk.started_at, settings.timezone)}  {hit.chunk.chunk_id}")
    if hit.question:
        typer.echo(f"      asked: {shorten(one_line(hit.question), 160)}")
    typer.echo(f"      {hit.who}{replying(hit.chunk.origin, 160)}: {shorten(one_line(hit.chunk.text), 300)}")
    if hit.also:
        typer.echo(f"      said again: {', '.join(hit.also)}")


@app.command(context_settings={"ignore_unknown_options": True})
def context(
    chat: Annotated[str, typer.Argument(help="Chat id; not with --batch.")] = "",
    text: Annotated[str, typer.Argument(help="The message.")] = "",
    json: Json = False,
    batch: Batch = None,
    budgets: Annotated[
        str | None, typer.Option(help="With --batch: token budgets, comma-separated (500,1000,2000,4000).")
    ] = None,
) -> None:
    """Exactly what would be injected for a message, with its tokens and sources."""
    settings = start()
    if batch and (chat or text):
        raise InvalidInput("--batch takes chat and message from the file. Leave CHAT and TEXT out.")
    if budgets is not None and not batch:
        raise InvalidInput("--budgets goes with --batch. One message has MEMORY_TOKENS as its budget.")
    sizes_asked = _numbers("500,1000,2000,4000" if budgets is None else budgets)
    if batch:
        _print_batch(settings, batch, 30, sizes_asked)
        return
    from dispatcher.cli.search import look

    found, slow = look(settings, connect(settings), given_chat(chat), _required(text, "TEXT"))
    if json:
        print_json({"chat_id": chat, "budget": settings.memory_tokens} | found.to_json() | {"notes": slow})
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
    _say_degraded(found.degraded + slow)


def _hits_used(found: Context) -> str:
    if found.no_recall_reason:
        return f"no hits used: {found.no_recall_reason}"
    why = f" ({found.decision_reason})" if found.decision_reason else ""
    return f"{len(found.used)} hits used{why}, {len(found.cut)} left out (too weak, or over the budget)"


@app.command()
def status(json: Json = False) -> None:
    """Queue, dispatchers, release, pin, last night and last failure. Exit code 42 or 43 when nobody answers, 21 when memory is stale."""
    from dispatcher.health.status import read_status
    from dispatcher.queue.state import queue_error, read_queue

    settings = start()
    client = connect(settings)
    found = read_status(settings, client)
    errors: list[HmemError] = []
    if error := queue_error(client, settings, read_queue(client, settings.task_bytes)):
        errors.append(error)
    if found.stale:
        errors.append(MemoryStale(f"Memory is not being kept up: {found.stale.rstrip('.')}. {found.advice}"))
    if json:
        print_json(found.to_json() | {"errors": [{"exit_code": one.exit_code, "error": str(one)} for one in errors]})
    else:
        for name, value in _status_rows(found, settings).items():
            typer.echo(f"{name:16} {value}")
    end_with(errors)


def _status_rows(found: Status, settings: Settings) -> dict[str, str]:
    from dispatcher.health.status import SAMPLED_TURNS

    night = (
        "never"
        if found.last_night_hours is None
        else f"run {found.last_night_run}, {found.last_night_hours:.1f} hours ago"
    )
    release = f"{found.release}: {found.turns_archived} turns of {found.chats} chats" if found.release else "none yet"
    workers = ", ".join(
        f"{name} (release {run or ('none' if run == 0 else 'unreadable')})" for name, run in found.workers.items()
    )
    more = "+" if found.turns_waiting == SAMPLED_TURNS else ""
    rows = {
        "queue": f"{found.queued} waiting, {found.in_flight} in flight, {found.dead_letters} dead letters"
        + (" (hmem dead list)" if found.dead_letters else ""),
        "dispatchers": workers or "none running",
        "telegram bot": found.bot or "none running (another bot cannot be seen from here)",
        "turns in Redis": f"{found.turns_waiting}{more} waiting for the night",
        "release": found.release_error or release,
    }
    if settings.without_vectors:
        what = "the summary alone, nothing is looked up" if settings.memory_backend == "summary" else "words alone"
        rows["recall by"] = f"{what} ({settings.without_vectors})"
    if found.pin:
        since = zoned_text(found.pin.since, settings.timezone)
        aside = "" if found.pin.run == found.release else " (not current: hmem release rollback was cut short)"
        rows["pin"] = f"pinned at {found.pin.run} since {since}{aside}; hmem release unpin"
    rows["last good night"] = night
    if found.forgetting:
        rows["forgetting"] = f"{len(found.forgetting)} unfinished ({', '.join(found.forgetting)}); hmem forget --resume"
    if found.last_failure:
        rows["last failure"] = found.last_failure.sentence(time.time())
    return rows


@app.command()
def doctor(json: Json = False) -> None:
    """What is wrong here, why, and what to do. Ends with the code of the first problem; changes nothing."""
    from dispatcher.health import doctor as checks

    found = []
    for finding in checks.examine(start()):
        found.append(finding)
        if not json:
            print_bytes(checks.lines(finding).encode())
    if json:
        print_json(checks.report(found))
    raise typer.Exit(checks.exit_code(found))


def _required(value: str, name: str) -> str:
    if not value.strip():
        raise InvalidInput(f"{name} is empty. Write what you would ask.")
    return value


def _numbers(value: str) -> list[int]:
    try:
        numbers = [int(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InvalidInput(f"--budgets {value!r} is no list of numbers above 0, such as 500,1000.")
    return numbers


def _print_batch(settings: Settings, path: Path, k: int, budgets: list[int], *, texts_needed: bool = False) -> None:
    """`texts_needed`: a release without its texts is an error."""
    from dispatcher.memory.day.opened import open_memory
    from dispatcher.prompt.batch import answer_batch

    with open_memory(settings) as memory:
        release = memory.required_release()
        release.open_vectors()
        if texts_needed and release.text_missing:
            raise ReleaseRefused(release.text_missing)
        for answer in answer_batch(settings, release, path, k, budgets):
            print_bytes(orjson.dumps(answer))


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _say_degraded(reasons: list[str]) -> None:
    for reason in reasons:
        typer.echo(f"note: {reason}", err=True)
