"""The owner's look at what the bot would be told: the same context that the dispatcher would inject, without its counting as an answer."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

from redis import Redis, RedisError

from dispatcher.assembling import assemble
from dispatcher.context import Context, Said
from dispatcher.day import Day
from dispatcher.tasks import said_of
from shared import keys
from shared.recall import OpenRelease
from shared.release import current_release, no_release
from shared.settings import Settings


def look(settings: Settings, client: Redis, chat_id: str, message: str) -> Context:
    """The context of a message now. Without Redis: as if no conversation were going on, and it says so."""
    session, recent, note = _conversation(settings, client, chat_id)
    with ExitStack() as held:
        day = held.enter_context(closing(Day(settings)))
        day.open()
        path = current_release(settings.hmem_memory_dir)
        release = held.enter_context(closing(OpenRelease(settings, path))) if path else None
        if release:
            release.open_vectors()
        why = None if release else no_release(settings.hmem_memory_dir)
        found = assemble(release, chat_id, message, settings, recent, why, day, session, count=False)
    found.degraded.extend(note)
    return found


def _conversation(settings: Settings, client: Any, chat_id: str) -> tuple[str | None, list[Said] | None, list[str]]:
    """(session that would be resumed, else what was said just now, notes)."""
    try:
        session = client.get(keys.session(chat_id)) if settings.session_mode == "resume" else None
        if session:
            return session.decode("utf-8", "replace"), None, []
        return None, said_of(client.lrange(keys.history(chat_id), 0, -1)), []
    except RedisError as error:
        return None, None, [f"no conversation so far: Redis does not answer ({error})"]
