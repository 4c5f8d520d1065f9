"""What Claude may ask of one chat's memory: search, what was said last, facts, and, where the owner allows it, keeping something.

An object is bound to one chat for its life; nothing here takes another. It answers with text for the model: records inside a fence, under the
words of the prompt that call them data and no orders, and notes on what is missing. Nothing is opened before the first call that needs it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.memory.cache_dropping import drop
from dispatcher.memory.conversation import Said, conversation_of, said_lines, said_of
from dispatcher.memory.day import Day
from dispatcher.memory.tombstones import hidden_by
from dispatcher.queue.tasks import turns_of
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput, SettingsError
from shared.release.manifest import current_release, no_release
from shared.search.recall import OpenRelease
from shared.text.format import one_line, shorten, time_text
from shared.text.marks import harmless
from shared.turns.origin_words import replying
from shared.turns.records import Task, chat_id_of
from shared.turns.speakers import answering
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

    from shared.search.day_items import DayItems
    from shared.search.lookup import Hit, Recalled
    from shared.turns.records import Tombstone, Turn

#: Characters of a result with all that stands around the records, of one text, of the question that it answers, and of all notes.
RESULT_CHARACTERS, TEXT_CHARACTERS, QUESTION_CHARACTERS, NOTE_CHARACTERS = 8_000, 700, 160, 1_000
#: Seconds that the embedder and the vectors get to open before a search does without them, and the comparison by meaning to answer.
OPENING_SECONDS, SEARCH_SECONDS = 10.0, 10.0
#: Seconds that the store of the day gets when this ends.
CLOSING_SECONDS = 2.0


@dataclass
class Found:
    """Lines of one answer, and what is to be said of what is missing."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class ChatMemory:
    """Thread-safe: one call at a time. HmemError, or what a library raises, where a call cannot be answered at all."""

    def __init__(self, settings: Settings, chat_id: str) -> None:
        self._settings, self._chat = settings, chat_id_of(chat_id)
        self._day = Day(settings)
        self._served = _Served(settings)
        self._client: Redis | None = None
        self._opening: threading.Thread | None = None
        self._mark: bytes | None = b""  # of the last forgetting after which the caches were dropped (cache_dropping.py)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of all files, for a while at most: what hangs ends with the process."""
        within(self._close, CLOSING_SECONDS)

    def _close(self) -> None:
        self._served.close()
        self._day.close()
        if self._client:
            self._client.close()

    def search(self, query: str, k: int, since: float | None, until: float | None) -> str:
        """The `k` turns that say most about `query`, said from `since` on and before `until` (POSIX seconds)."""
        with self._up_to_date():
            hidden, before = hidden_by(self._day.forgotten.of(self._chat))
            release, note = self._served.now()
            self._open_vectors(release)
            items, more = self._items()
            recalled = self._recalled(query, k, release, items, hidden, before, since, until)
        found = Found([self._hit(*numbered) for numbered in enumerate(recalled.hits, start=1)])
        found.notes += [one for one in (note, more, *recalled.degraded) if one]
        return answer("Earlier turns that match the search, best first", found, "Nothing that was said here matches.")

    def recent(self, n: int) -> str:
        """The last `n` turns of the conversation so far, else of the day, oldest first."""
        with self._up_to_date():
            stones, notes = self._day.forgotten.of(self._chat), list[str]()
            said = self._said(n, stones, notes)[-n:]
        zone = self._settings.timezone
        lines = [line.removeprefix("- ") for line in said_lines(said, zone, TEXT_CHARACTERS)]
        return answer(
            "What was said last, oldest first", Found(lines, notes), "Nothing was said here lately.", newest=True
        )

    def facts(self) -> str:
        """What `/memory` lists."""
        with self._up_to_date():
            self._must_be_wanted()
            listed = self._day.listing(self._chat, time.time())
        return answer("Facts, goals and preferences, with their numbers", Found(listed.splitlines()), "")

    def add(self, text: str, kind: str, deadline: str | None) -> str:
        """Keep it as `/memory add` does. The same again is noted once, whoever asks twice."""
        now, more = time.time(), dict[str, Any]()
        if deadline is not None:
            more["deadline"] = self._deadline(kind, deadline, now)
        with self._up_to_date():
            self._must_be_wanted()
            self._open_vectors(None)
            task = Task(self._action(text, kind, deadline), self._chat, "")
            return harmless(self._day.acting.add(task, text.strip(), now, kind=kind, **more).say)

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """One call at a time, without what was kept before something was forgotten; where Redis cannot tell, without anything that was kept."""
        with self._lock:
            try:
                mark = self._redis().get(keys.FORGOTTEN) or b""
            except Exception:  # noqa: BLE001 - `recent` says it; the others need no Redis
                mark = None
            if mark is None or mark != self._mark:
                drop(self._day, self._served.close)
                self._mark = mark
            yield

    def _must_be_wanted(self) -> None:
        if not self._day.wanted:
            raise SettingsError("Nothing is kept here: MEDIUM_URL=none switches it off. Answer without it.")

    def _deadline(self, kind: str, said: str, now: float) -> float:
        from dispatcher.memory.dates.given import deadline_of

        if kind != "goal":
            raise InvalidInput(f"A {kind} has no deadline. Leave it out, or keep it as a goal.")
        return deadline_of(said, now, self._settings.timezone).at

    def _action(self, text: str, kind: str, deadline: str | None) -> str:
        """The task id of an addition: the same for the same words, until something was forgotten or done, since then they may be said anew."""
        from dispatcher.memory.store.memories import MemoryType

        done = self._day.memories.count(self._chat, [MemoryType.COMPLETED_GOAL])
        state = f"{len(self._day.forgotten.of(self._chat))} {done}"
        said = "\x00".join((self._chat, kind, text.strip(), deadline or "", state))
        return "mcp-" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def _open_vectors(self, release: OpenRelease | None) -> None:
        """Beside us, since an embedder may hang: whoever asks meanwhile is answered by words alone."""
        if self._opening is None or not self._opening.is_alive():
            opening = release.open_vectors if release and release.vectors_missing else None
            self._opening = within(lambda: self._open(opening), OPENING_SECONDS)

    def _open(self, release: Callable[[], None] | None) -> None:
        self._day.embedder.open()
        if release:
            release()

    def _items(self) -> tuple[DayItems | None, str | None]:
        """The turns of the day, and why there are none if they cannot be asked."""
        try:
            return (self._day.items(self._chat) if self._day.wanted else None), None
        except HmemError as error:
            return None, f"no memory of the day: {error}"

    def _recalled(
        self,
        query: str,
        k: int,
        release: OpenRelease | None,
        items: DayItems | None,
        hidden: frozenset[str],
        before: float | None,
        since: float | None,
        until: float | None,
    ) -> Recalled:
        """Release and day, ranked together; what is hidden, and what was said before that time, counts as never said."""
        recall = release.recall if release else self._day.recall.recall
        return recall(
            self._chat,
            query,
            k,
            SEARCH_SECONDS,
            day=items,
            hidden=hidden,
            hidden_before=before,
            vector_of=self._day.embedder.query,
            since=since,
            until=until,
        )

    def _hit(self, number: int, hit: Hit) -> str:
        chunk, zone = hit.chunk, self._settings.timezone
        who = _who(hit)
        said = f"{number}. {time_text(chunk.started_at, zone)} {who} (score {hit.score:.2f}, turn {chunk.turn_ids[0]})"
        asked = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS)) if hit.question is not None else ""
        return f"{said}{asked or replying(chunk.origin, QUESTION_CHARACTERS)}: {_short(chunk.text)}"

    def _said(self, n: int, stones: Sequence[Tombstone], notes: list[str]) -> list[Said]:
        """The conversation so far. Forgetting ends it: what is older than the last request to forget is not told from it, whatever is left there."""
        said: list[Said] = []
        waiting: list[Turn] = []
        try:
            client = self._redis()
            said, _ = conversation_of(client.lrange(keys.history(self._chat), 0, -1), stones)
            forgotten_at = max((stone.created_at for stone in stones), default=0.0)
            said = [one for one in said if one.timestamp >= forgotten_at]
            if not said:
                ids = client.lrange(keys.unconsolidated(self._chat), 0, -1)
                names = [keys.MEMORY_PREFIX + raw.decode("utf-8", "replace") for raw in ids]
                waiting = turns_of(names, client.mget(names) if names else [], self._chat)
        except Exception as error:  # noqa: BLE001 - what the day's store holds is better than nothing
            notes.append(f"no conversation so far: Redis does not answer ({error})")
        return said or self._said_today(n, waiting, stones, notes)

    def _said_today(self, n: int, waiting: Sequence[Turn], stones: Sequence[Tombstone], notes: list[str]) -> list[Said]:
        """The day's last turns and those that wait to become some, each once."""
        turns = list(waiting)
        try:
            if self._day.wanted:
                days, now = self._settings.medium_days, time.time()
                turns += [one.turn for one in self._day.turns.get_recent(self._chat, days, n, now=now)]
        except HmemError as error:
            notes.append(f"no memory of the day: {error}")
        once = {turn.turn_id: turn for turn in turns if not any(stone.covers(turn) for stone in stones)}
        in_time = sorted(once.values(), key=lambda turn: (turn.timestamp, turn.task_id, turn.role != "user"))
        return [said_of(turn) for turn in in_time]

    def _redis(self) -> Any:
        if self._client is None:
            from shared.wire.client import MCP_SERVER, open_redis

            self._client = open_redis(self._settings.redis_url, MCP_SERVER)
        return self._client


class _Served:
    """The release that `current` leads to, opened at the first call and again when that moves; one that is refused leaves the old one in place."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._release: OpenRelease | None = None
        self._identity: tuple[Path, int] | None = None  # with the inode: a run may be brought again under the same path

    def now(self) -> tuple[OpenRelease | None, str | None]:
        """The release to ask, if there is one, and why it is not the current one."""
        try:
            path = current_release(self._settings.hmem_memory_dir)
            if path is None:
                return self._release, no_release(self._settings.hmem_memory_dir)
            identity = path, path.stat().st_ino
            if identity != self._identity:
                self._take(OpenRelease(self._settings, path), identity)
        except (HmemError, OSError) as error:
            return self._release, f"the current release is not searched: {error}"
        return self._release, None

    def _take(self, release: OpenRelease, identity: tuple[Path, int]) -> None:
        before, self._release, self._identity = self._release, release, identity
        if before:
            before.close()

    def close(self) -> None:
        """Until the next `now`."""
        if self._release:
            self._release.close()
        self._release = self._identity = None


def answer(title: str, found: Found, nothing: str, *, newest: bool = False) -> str:
    """The text of a result: lines in the fence of the prompt, as many as fit (of a conversation the newest), then what is missing."""
    from dispatcher.memory.store.words import storable
    from dispatcher.prompt.render import Part, render

    notes = shorten("; ".join(one_line(note).rstrip(".") for note in found.notes), NOTE_CHARACTERS)
    room = RESULT_CHARACTERS - len(render([Part("found", title, "")])) - NOTE_CHARACTERS
    lines = _fitting([harmless(line) for line in found.lines], room, newest=newest)
    parts = [render([Part("found", title, "\n".join(lines))])] if lines else [nothing]
    if len(lines) < len(found.lines):
        which = "newest" if newest else "first"
        parts.append(f"Cut: only the {which} {len(lines)} of {len(found.lines)} lines fit. Ask for less at once.")
    if notes:
        parts.append(f"Not everything could be asked: {harmless(notes)}.")
    return storable("\n\n".join(parts))


def _fitting(lines: Sequence[str], room: int, *, newest: bool) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines) if newest else lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1] if newest else kept


def _short(text: str) -> str:
    return shorten(one_line(text), TEXT_CHARACTERS)


def _who(hit: Hit) -> str:
    """The speaker's label, with `user` ahead of every person's name."""
    who = hit.who
    return who if hit.chunk.role != "user" or who == "user" or who.startswith(('user "', "user #")) else f"user {who}"


def within(call: Callable[[], None], seconds: float) -> threading.Thread:
    """Run it in a thread, and wait for it so long; it may go on then, and ends with the process."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return thread
