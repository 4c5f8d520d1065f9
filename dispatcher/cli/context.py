"""`hmem context`: exactly what the dispatcher would inject for a message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from redis import Redis, RedisError

from dispatcher.cli.arguments import Batch, Json, connect, given_chat, print_batch, required, say_notes
from dispatcher.memory.day.open_memory import open_memory
from dispatcher.memory.session_history import HistoryEntry, conversation_of
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.assemble import PromptRequest, assemble
from shared.config.settings import Settings
from shared.errors import InvalidInput, StorageError
from shared.release.manifest import no_release
from shared.system.command import application, print_json, start
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.prompt.context import Context

app = application()

#: Milliseconds that a command gives memory instead of MEMORY_DEADLINE_MS: a fresh process first loads what a running dispatcher already has.
COMMAND_DEADLINE_MS = 60_000


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
        raise InvalidInput("--batch reads chat and message from the file. Omit CHAT and TEXT.")
    if budgets is not None and not batch:
        raise InvalidInput(
            "--budgets requires --batch: the budget of a single message is MEMORY_TOKENS. Omit --budgets."
        )
    token_budgets = _numbers("500,1000,2000,4000" if budgets is None else budgets)
    if batch:
        print_batch(settings, batch, 30, token_budgets)
        return
    found, slow = look(settings, connect(settings), given_chat(chat), required(text, "TEXT"))
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
    say_notes(found.degraded + slow)


def look(settings: Settings, client: Redis, chat_id: str, message: str) -> tuple[Context, list[str]]:
    """The context of a message now, and notes about its time. Nothing is left out for being slow, since the person at the terminal can wait.

    Without Redis: as if there were no conversation, with a note.
    """
    session, recent, note = _conversation(settings, client, chat_id)
    request = PromptRequest(chat_id, message, recent, session, count_access=False)
    patient = settings.model_copy(update={"memory_deadline_ms": max(settings.memory_deadline_ms, COMMAND_DEADLINE_MS)})
    with open_memory(patient) as memory:
        release, day = memory.release(), memory.day
        if day.wanted:
            day.open()
        memory.open_vectors()
        reason = None if release else no_release(settings.hmem_memory_dir)
        started = time.perf_counter()
        found = assemble(request, patient, release, day, reason)
        took = 1000 * (time.perf_counter() - started)
        slow = []
        if took > settings.memory_deadline_ms:
            # Once more, as a dispatcher would: everything is loaded, and the message's vector is cached.
            again = assemble(request, settings, release, day, reason)
            slow = _slow(took, settings, [one for one in again.degraded if one not in found.degraded])
    found.degraded.extend(note)
    return found, slow


def _slow(took: float, settings: Settings, left_out: list[str]) -> list[str]:
    """How a running dispatcher would have fared; what it would leave out, as far as that was tried."""
    limit = f"{settings.memory_deadline_ms} ms (MEMORY_DEADLINE_MS)"
    note = f"this took {took:.0f} ms in a process that had to load everything first; a running dispatcher waits at most {limit}"
    return [note, *(f"a second try within that limit would have left out: {one}" for one in left_out)]


def _conversation(
    settings: Settings, client: Any, chat_id: str
) -> tuple[str | None, list[HistoryEntry] | None, list[str]]:
    """(session that would be resumed, else the recent messages, notes). A session that contains something forgotten is not resumed."""
    try:
        tombstones = Forgotten(settings.hmem_state_dir).of(chat_id)
        recent, gone = conversation_of(client.lrange(keys.history(chat_id), 0, -1), tombstones)
        session = client.get(keys.session(chat_id))
        if session is None and client.exists(keys.bot_new(chat_id)):  # ended by /new, and not asked since
            return None, [], []
        resumed = settings.session_mode == "resume" and not gone
        return (session.decode("utf-8", "replace"), None, []) if session and resumed else (None, recent, [])
    except StorageError:  # the tombstones cannot be read: then nothing is assembled, and a note there says why
        return None, None, []
    except RedisError as error:
        return None, None, [f"no conversation so far: Redis does not answer ({error})"]


def _hits_used(found: Context) -> str:
    if found.no_recall_reason:
        return f"no hits used: {found.no_recall_reason}"
    why = f" ({found.decision_reason})" if found.decision_reason else ""
    return f"{len(found.used)} hits used{why}, {len(found.cut)} left out (too weak, or over the budget)"


def _numbers(value: str) -> list[int]:
    try:
        numbers = [int(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InvalidInput(f"--budgets {value!r} is not a list of numbers above 0. Write for example 500,1000.")
    return numbers
