"""`hmem restore`: memory from a copy of the archive, on an empty host (docs/backups.md).

    what this host, or a list, says was forgotten since ─ hidden, and in Redis, so that the night erases it from the copy, too
    `hmem-night backfill archive COPY` ─ the files are brought here, and a release is made of them and served
    the events ─ memories, reminders, what chats have set, guests

Each part may be repeated, so a restore that was killed is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import EventOutbox
from dispatcher.memory.store.events import put_back
from dispatcher.memory.tombstones import Forgotten, announce
from dispatcher.memory.typed.chat_memories import marks_of
from dispatcher.releases.night_command import night_is_here, read_lines, run_night
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.files import make_dir
from shared.system.owner_key import open_signing
from shared.turns.events import Event
from shared.turns.records import RecordRefused, Tombstone, loads_object
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis


def restore(
    settings: Settings, client: Redis, copy: Path, forgotten: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Bring everything back; what was done. InvalidInput for an unusable list, NightCommandFailed if the archive cannot be brought or built."""
    listed = _listed(forgotten) if forgotten else []
    here, built = Forgotten(settings.hmem_state_dir), night_is_here(settings)
    if built:
        make_dir(settings.hmem_night_dir)
    signing = open_signing(settings) if any(one.erase for one in (*listed, *here.all())) else None
    # The owner names the list, so it counts on this host even if the key that signed it is lost.
    for tombstone in listed:
        here.add(signing.signed(tombstone) if signing else tombstone)
    announce(client, tombstones := here.all())
    if built:
        if signing and signing.why_not:
            say(f"What was erased since is only hidden in this archive: {signing.why_not}.")
        run_night(settings, "backfill", "archive", str(copy))
    else:
        say(
            "The nights run on another host: bring the copy there with hmem-night backfill archive COPY. Here only memories are brought back."
        )
    done = {}
    if settings.has_day_store:
        outbox = EventOutbox(Database(settings.day_store_url, settings.hmem_state_dir))
        done = put_back(outbox, client, _events(settings, copy, tombstones), marks_of(tombstones))
    return {"archive": built, "tombstones": len(tombstones), **done}


def _listed(path: Path) -> list[Tombstone]:
    """The tombstones in a list (forgotten.jsonl of HMEM_STATE_DIR), all or none."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.append(Tombstone.parse(line))
        except RecordRefused as error:
            raise InvalidInput(
                f"--forgotten {path}: line {number} is not a tombstone: {error}. Nothing was changed. It is forgotten.jsonl of a state directory."
            ) from error
    return found


def _events(settings: Settings, copy: Path, tombstones: Iterable[Tombstone]) -> Iterable[Event]:
    by_chat: dict[str, list[Tombstone]] = {}
    for one in tombstones:
        by_chat.setdefault(one.chat_id, []).append(one)
    for line in read_lines(settings, "turns", f"--events-of={copy}"):
        record = loads_object(line)
        event = Event.parse(keys.event(record["kind"], record["id"]).encode(), line)
        if not any(map(event.is_covered_by, by_chat.get(event.chat_id, ()))):
            yield event
