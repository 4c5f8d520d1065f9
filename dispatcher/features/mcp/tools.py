"""What Claude may ask of one chat's memory: search, history, recent messages, facts, and, if the owner allows it, storing a memory.

An object is bound to one chat for its lifetime. It answers with text for the model: records inside a fence, under the prompt's words that call
them data and not instructions, and notes on what is missing. Nothing is opened before the first call that requires it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.memory.cache_dropping import drop
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.session_history import history_lines
from dispatcher.memory.tombstones import hidden_by
from shared.config.settings import Settings
from shared.errors import HmemError, SettingsError
from shared.search.types import Query
from shared.text.format import fitting, one_line, shorten, storable, time_text
from shared.text.marks import harmless
from shared.turns.origin_words import replying
from shared.turns.records import Task, chat_id_of
from shared.turns.speakers import answering
from shared.wire import keys
from shared.wire.client import MCP_SERVER, open_redis

if TYPE_CHECKING:
    from shared.search.day_items import DayItems
    from shared.search.recall import OpenRelease
    from shared.search.types import Hit

#: Characters of a result including everything around the records, of one text, of the question that it answers, and of all notes.
RESULT_CHARACTERS, TEXT_CHARACTERS, QUESTION_CHARACTERS, NOTE_CHARACTERS = 8_000, 700, 160, 1_000
#: Seconds that the embedder and the vectors get to open before a search runs without them, and seconds for the search by meaning.
OPENING_SECONDS, SEARCH_SECONDS = 10.0, 10.0
#: Seconds that the day store gets to close.
CLOSING_SECONDS = 2.0


class ChatMemory:
    """Thread-safe: one call at a time. HmemError, or an error of a library, if a call cannot be answered at all."""

    def __init__(self, settings: Settings, chat_id: str, mark: Path | None = None) -> None:
        self._settings, self._chat, self._read_mark = settings, chat_id_of(chat_id), mark
        self._memory = OpenedMemory(settings)
        self._day = self._memory.day
        self._redis: Any = open_redis(settings.redis_url, MCP_SERVER)
        self._opening: threading.Thread | None = None
        self._mark: bytes | None = b""  # of the last forgetting after which the caches were dropped (cache_dropping.py)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all files, within CLOSING_SECONDS: what hangs ends with the process."""
        within(self._close, CLOSING_SECONDS)

    def _close(self) -> None:
        self._memory.close()
        self._redis.close()

    def search(self, query: str, k: int, since: float | None, until: float | None) -> str:
        """The `k` turns most relevant to `query`, from `since` on and before `until` (POSIX seconds)."""
        with self._up_to_date():
            hidden = hidden_by(self._day.forgotten.of(self._chat))
            release, note = self._memory.release_or_reason("the current release is not searched")
            self._open_vectors(release)
            items, more = self._items()
            wanted = Query(self._chat, query, k, SEARCH_SECONDS, day=items, hidden=hidden, since=since, until=until)
            recalled = (release or self._day.recall).recall(wanted, self._day.embedder.query)
        lines = [self._hit(*numbered) for numbered in enumerate(recalled.hits, start=1)]
        notes = (note, more, *recalled.degraded)
        return answer(
            "Earlier turns that match the search, best first", lines, "No message of this chat matches.", notes
        )

    def history(
        self, n: int, since: float | None = None, until: float | None = None, contains: str | None = None
    ) -> str:
        """The newest `n` turns, from `since` on and before `until` (POSIX seconds), that contain all words of `contains`, oldest first."""
        from dispatcher.memory.day.history import look_back
        from shared.search.history import HistoryQuery

        with self._up_to_date():
            release, note = self._memory.release_or_reason("the current release is not read")
            if release:
                release.open_texts()
                note = f"the release is left out: {release.text_missing}" if release.text_missing else note
            readable = None if release and release.text_missing else release
            result = look_back(self._day, readable, HistoryQuery(self._chat, n, since, until, contains))
        notes = (note, f"no memory of the day: {result.away}" if result.away else None)
        told = history_lines(result.found.turns, self._settings.timezone, TEXT_CHARACTERS, result.speakers)
        lines = [line.removeprefix("- ") for line in told]
        text = answer("Messages, oldest first", lines, "No message of this chat fits.", notes, newest=True)
        return f"{text}\n\nThere are older messages: use until to get them." if result.found.more else text

    def facts(self) -> str:
        """The list of `/memory`."""
        with self._up_to_date():
            self._require_store()
            listed = self._day.requests.listing(self._chat, time.time())
            if self._read_mark:
                self._read_mark.touch()
        return answer("Facts, goals and preferences, with their numbers", listed.splitlines(), "")

    def add(self, text: str, kind: str, deadline: str | None) -> str:
        """Store a memory as `/memory add` does. Repeating the call stores it only once."""
        from dispatcher.memory.dates.user_dates import goal_deadline

        now, more = time.time(), dict[str, Any]()
        if deadline is not None:
            more["deadline"] = goal_deadline(kind, deadline, now, self._settings.timezone)
        with self._up_to_date():
            self._require_store()
            self._open_vectors(None)
            task = Task(self._action(text, kind, deadline), self._chat, "")
            return harmless(self._day.acting.add(task, text.strip(), now, kind=kind, **more).say)

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """One call at a time; drops the caches after a forgetting, or if Redis cannot tell whether there was one."""
        with self._lock:
            try:
                mark = self._redis.get(keys.FORGOTTEN) or b""
            except Exception:  # noqa: BLE001 - no tool requires Redis
                mark = None
            if mark is None or mark != self._mark:
                drop(self._day, self._memory.close_release)
                self._mark = mark
            yield

    def _require_store(self) -> None:
        if not self._day.wanted:
            raise SettingsError("Nothing is stored here: DAY_STORE_URL=none switches it off. Answer without it.")

    def _action(self, text: str, kind: str, deadline: str | None) -> str:
        """The task id of an addition: the same for the same text, until something is forgotten or done; after that the text may be added again."""
        from dispatcher.memory.store.memories import MemoryType

        done = self._day.memories.count(self._chat, MemoryType.COMPLETED_GOAL)
        state = f"{len(self._day.forgotten.of(self._chat))} {done}"
        identity = "\x00".join((self._chat, kind, text.strip(), deadline or "", state))
        return "mcp-" + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def _open_vectors(self, release: OpenRelease | None) -> None:
        """Open them in a thread, because an embedder may hang: calls in the meantime search by words only."""
        if self._opening is None or not self._opening.is_alive():
            opening = release.open_vectors if release and release.vectors_missing else None
            self._opening = within(lambda: self._open(opening), OPENING_SECONDS)

    def _open(self, release: Callable[[], None] | None) -> None:
        self._day.embedder.open()
        if release:
            release()

    def _items(self) -> tuple[DayItems | None, str | None]:
        """The turns of the day, or None and why they are not available."""
        try:
            return (self._day.items(self._chat) if self._day.wanted else None), None
        except HmemError as error:
            return None, f"no memory of the day: {error}"

    def _hit(self, number: int, hit: Hit) -> str:
        chunk, zone = hit.chunk, self._settings.timezone
        head = f"{number}. {time_text(chunk.started_at, zone)} {_who(hit)} (score {hit.score:.2f}, turn {chunk.turn_ids[0]})"
        asked = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS)) if hit.question is not None else ""
        return f"{head}{asked or replying(chunk.origin, QUESTION_CHARACTERS)}: {shorten(one_line(chunk.text), TEXT_CHARACTERS)}"


def answer(title: str, found: Sequence[str], nothing: str, notes: Iterable[str | None] = (), *, newest: bool = False) -> str:  # fmt: skip
    """The text of a result: lines in the fence of the prompt, as many as fit (of a conversation the newest), then what is missing."""
    from dispatcher.prompt.render import PromptPart, render

    missing = shorten("; ".join(one_line(note).rstrip(".") for note in notes if note), NOTE_CHARACTERS)
    room = RESULT_CHARACTERS - len(render([PromptPart("found", title, "")])) - NOTE_CHARACTERS
    lines = fitting([harmless(line) for line in found], room, newest=newest)
    parts = [render([PromptPart("found", title, "\n".join(lines))])] if lines else [nothing]
    if len(lines) < len(found):
        which = "newest" if newest else "first"
        parts.append(f"Cut: only the {which} {len(lines)} of {len(found)} lines fit. Ask for fewer at a time.")
    if missing:
        parts.append(f"Not everything could be searched: {harmless(missing)}.")
    return storable("\n\n".join(parts))


def _who(hit: Hit) -> str:
    """The speaker's label, with `user` ahead of every person's name."""
    who = hit.who
    return who if hit.chunk.role != "user" or who == "user" or who.startswith(('user "', "user #")) else f"user {who}"


def within(call: Callable[[], None], seconds: float) -> threading.Thread:
    """Run it in a daemon thread and wait for at most `seconds`; after that it continues, and ends with the process."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return thread
