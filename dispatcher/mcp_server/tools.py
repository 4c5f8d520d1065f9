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
from typing import TYPE_CHECKING, Any

from dispatcher.memory.cache_dropping import drop
from dispatcher.memory.conversation import HistoryEntry, conversation_of, entry_of, history_lines
from dispatcher.memory.day.opened import OpenedMemory
from dispatcher.memory.tombstones import hidden_by
from dispatcher.queue.tasks import turns_of
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput, SettingsError
from shared.search.types import HiddenTurns, Query
from shared.text.format import one_line, shorten, storable, time_text
from shared.text.marks import harmless
from shared.turns.origin_words import replying
from shared.turns.records import Task, chat_id_of
from shared.turns.speakers import answering
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

    from shared.search.day_items import DayItems
    from shared.search.recall import OpenRelease
    from shared.search.types import Hit
    from shared.turns.records import Tombstone, Turn

#: Characters of a result with all that stands around the records, of one text, of the question that it answers, and of all notes.
RESULT_CHARACTERS, TEXT_CHARACTERS, QUESTION_CHARACTERS, NOTE_CHARACTERS = 8_000, 700, 160, 1_000
#: Seconds that the embedder and the vectors get to open before a search does without them, and the comparison by meaning to answer.
OPENING_SECONDS, SEARCH_SECONDS = 10.0, 10.0
#: Seconds that the store of the day gets when this ends.
CLOSING_SECONDS = 2.0


@dataclass
class ToolAnswer:
    """Lines of one answer, and what is to be said of what is missing."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class ChatMemory:
    """Thread-safe: one call at a time. HmemError, or what a library raises, where a call cannot be answered at all."""

    def __init__(self, settings: Settings, chat_id: str) -> None:
        self._settings, self._chat = settings, chat_id_of(chat_id)
        self._memory = OpenedMemory(settings)
        self._day = self._memory.day
        self._client: Redis | None = None
        self._opening: threading.Thread | None = None
        self._mark: bytes | None = b""  # of the last forgetting after which the caches were dropped (cache_dropping.py)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of all files, for a while at most: what hangs ends with the process."""
        within(self._close, CLOSING_SECONDS)

    def _close(self) -> None:
        self._memory.close()
        if self._client:
            self._client.close()

    def search(self, query: str, k: int, since: float | None, until: float | None) -> str:
        """The `k` turns that say most about `query`, said from `since` on and before `until` (POSIX seconds)."""
        with self._up_to_date():
            hidden = HiddenTurns(*hidden_by(self._day.forgotten.of(self._chat)))
            release, note = self._memory.release_or_reason("the current release is not searched")
            self._open_vectors(release)
            items, more = self._items()
            asked = Query(self._chat, query, k, SEARCH_SECONDS, day=items, hidden=hidden, since=since, until=until)
            recalled = (release or self._day.recall).recall(asked, self._day.embedder.query)
        found = ToolAnswer([self._hit(*numbered) for numbered in enumerate(recalled.hits, start=1)])
        found.notes += [one for one in (note, more, *recalled.degraded) if one]
        return answer("Earlier turns that match the search, best first", found, "Nothing that was said here matches.")

    def history(self, n: int, since: float | None, until: float | None, contains: str | None) -> str:
        """The newest `n` turns, said from `since` on and before `until` (POSIX seconds), that hold all words of `contains`, oldest first."""
        from dispatcher.memory.day.history import look_back
        from shared.search.history import HistoryQuery

        with self._up_to_date():
            release, note = self._memory.release_or_reason("the current release is not read")
            if release:
                release.open_texts()
                note = f"the release is left out: {release.text_missing}" if release.text_missing else note
            readable = None if release and release.text_missing else release
            told = look_back(self._day, readable, HistoryQuery(self._chat, n, since, until, contains))
        notes = [note or "", f"no memory of the day: {told.away}" if told.away else ""]
        if told.found.more:
            notes.append("there are older ones, too: ask with until")
        lines = history_lines([entry_of(turn) for turn in told.found.turns], self._settings.timezone, TEXT_CHARACTERS)
        found = ToolAnswer([line.removeprefix("- ") for line in lines], list(filter(None, notes)))
        return answer("What was said, oldest first", found, "Nothing was said here that fits.", newest=True)

    def recent(self, n: int) -> str:
        """The last `n` turns of the conversation so far, else of the day, oldest first."""
        with self._up_to_date():
            stones, notes = self._day.forgotten.of(self._chat), list[str]()
            entries = self._conversation(n, stones, notes)[-n:]
        zone = self._settings.timezone
        lines = [line.removeprefix("- ") for line in history_lines(entries, zone, TEXT_CHARACTERS)]
        return answer(
            "What was said last, oldest first", ToolAnswer(lines, notes), "Nothing was said here lately.", newest=True
        )

    def facts(self) -> str:
        """What `/memory` lists."""
        with self._up_to_date():
            self._must_be_wanted()
            listed = self._day.requests.listing(self._chat, time.time())
        return answer("Facts, goals and preferences, with their numbers", ToolAnswer(listed.splitlines()), "")

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
                drop(self._day, self._memory.close_release)
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

    def _hit(self, number: int, hit: Hit) -> str:
        chunk, zone = hit.chunk, self._settings.timezone
        who = _who(hit)
        said = f"{number}. {time_text(chunk.started_at, zone)} {who} (score {hit.score:.2f}, turn {chunk.turn_ids[0]})"
        asked = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS)) if hit.question is not None else ""
        return f"{said}{asked or replying(chunk.origin, QUESTION_CHARACTERS)}: {_short(chunk.text)}"

    def _conversation(self, n: int, stones: Sequence[Tombstone], notes: list[str]) -> list[HistoryEntry]:
        """The conversation so far. Forgetting ends it: what is older than the last request to forget is not told from it, whatever is left there."""
        entries: list[HistoryEntry] = []
        waiting: list[Turn] = []
        try:
            client = self._redis()
            entries, _ = conversation_of(client.lrange(keys.history(self._chat), 0, -1), stones)
            forgotten_at = max((stone.created_at for stone in stones), default=0.0)
            entries = [one for one in entries if one.timestamp >= forgotten_at]
            if not entries:
                ids = client.lrange(keys.unconsolidated(self._chat), 0, -1)
                names = [keys.MEMORY_PREFIX + raw.decode("utf-8", "replace") for raw in ids]
                waiting = turns_of(names, client.mget(names) if names else [], self._chat)
        except Exception as error:  # noqa: BLE001 - what the day's store holds is better than nothing
            notes.append(f"no conversation so far: Redis does not answer ({error})")
        return entries or self._conversation_today(n, waiting, stones, notes)

    def _conversation_today(
        self, n: int, waiting: Sequence[Turn], stones: Sequence[Tombstone], notes: list[str]
    ) -> list[HistoryEntry]:
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
        return [entry_of(turn) for turn in in_time]

    def _redis(self) -> Any:
        if self._client is None:
            from shared.wire.client import MCP_SERVER, open_redis

            self._client = open_redis(self._settings.redis_url, MCP_SERVER)
        return self._client


def answer(title: str, found: ToolAnswer, nothing: str, *, newest: bool = False) -> str:
    """The text of a result: lines in the fence of the prompt, as many as fit (of a conversation the newest), then what is missing."""
    from dispatcher.prompt.render import PromptPart, render

    notes = shorten("; ".join(one_line(note).rstrip(".") for note in found.notes), NOTE_CHARACTERS)
    room = RESULT_CHARACTERS - len(render([PromptPart("found", title, "")])) - NOTE_CHARACTERS
    lines = _fitting([harmless(line) for line in found.lines], room, newest=newest)
    parts = [render([PromptPart("found", title, "\n".join(lines))])] if lines else [nothing]
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
