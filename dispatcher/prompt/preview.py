"""What the dispatcher would inject for a message now, for somebody who can wait: `hmem context` and the owner's page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis import Redis, RedisError

from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.session_history import conversation_of
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.assemble import assemble
from shared.config.settings import Settings
from shared.errors import InvalidInput, StorageError
from shared.release.manifest import no_release
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.day.open_memory import OpenedMemory
    from dispatcher.prompt.context import Context
    from shared.turns.records import Turn

#: Milliseconds that memory gets instead of MEMORY_DEADLINE_MS: a fresh process first loads what a running dispatcher already has.
PATIENT_DEADLINE_MS = 60_000


def preview(
    memory: OpenedMemory,
    settings: Settings,
    client: Redis,
    chat_id: str,
    message: str,
    now: float | None = None,
    who: str = "",
) -> tuple[Context, list[str]]:
    """The context of a message now, and notes about its time. Nothing is left out for being slow, since the person at the terminal can wait.

    `who` asks, in a group: a user id, or the name of somebody of whom something is noted; InvalidInput for another. Without Redis: as if there were
    no conversation, with a note.
    """
    session, recent, note = _conversation(settings, client, chat_id)
    patient = settings.model_copy(update={"memory_deadline_ms": max(settings.memory_deadline_ms, PATIENT_DEADLINE_MS)})
    release, day = memory.release(), memory.day
    if day.wanted:
        day.open()
    user, name = asker(day, chat_id, who) if who else (None, None)
    request = PromptRequest(chat_id, message, recent, session, count_access=False, now=now, user_id=user, name=name)
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


def asker(day: DayMemory, chat_id: str, who: str) -> tuple[str, str | None]:
    """Their user id and name."""
    known = day.remembering.of_chat(chat_id).every if day.wanted else ()
    people = {one.user_id: one.name for one in known if one.user_id}
    if who.isdecimal():
        return who, people.get(who)
    found = [user for user, name in people.items() if (name or "").casefold() == who.casefold()]
    if len(found) != 1:
        there = ", ".join(sorted(f"{name} ({user})" for user, name in people.items())) or "nobody"
        raise InvalidInput(
            f"{len(found)} people called {who} are noted in chat {chat_id}. Give a user id, of: {there}."
        )
    return found[0], people[found[0]]


def _slow(took: float, settings: Settings, left_out: list[str]) -> list[str]:
    """How a running dispatcher would have fared; what it would leave out, as far as that was tried."""
    limit = f"{settings.memory_deadline_ms} ms (MEMORY_DEADLINE_MS)"
    note = f"this took {took:.0f} ms in a process that had to load everything first; a running dispatcher waits at most {limit}"
    return [note, *(f"a second try within that limit would have left out: {one}" for one in left_out)]


def _conversation(settings: Settings, client: Any, chat_id: str) -> tuple[str | None, list[Turn] | None, list[str]]:
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
