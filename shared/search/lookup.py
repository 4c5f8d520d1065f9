"""One lookup: the items of a chat that are most relevant to a query, in the release and in the day's turns together.

All items of the chat are ranked together (scoring.py), by words and, if vector search answers in time, by similarity. Each hit is read back by
id *and* chat, so that a row of another chat is never returned, even if an index answered with one. What does not answer in time is left out and
named in `degraded`: vectors and keywords → keywords → nothing. If the release cannot be read, the day's turns are searched alone. Of texts that
say the same, the best one is returned and names the others.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from shared.embedding.centring import centred, whole
from shared.errors import without_words
from shared.ranking.injection import Evidence, may_be_foreign, read_message
from shared.ranking.question import asks_for_advice, asks_when, groups, meant_speakers, query_words
from shared.ranking.tokeniser import question_terms
from shared.search.lexical import LexicalIndex
from shared.search.types import EmbedQuery, Hit, Query, Recalled
from shared.text.dates.named_times import Span, names_one_of
from shared.text.words.function_words import PREFERENCE, SHOWN_BY
from shared.turns.chunk import Chunk
from shared.turns.message_origin import Origin
from shared.turns.speakers import is_named
from shared.vectors.base import MemoryBackend

if TYPE_CHECKING:
    from shared.ranking.scoring import Array, Integers, Posting, Question, Scored
    from shared.search.chat_items import ChatItems
    from shared.search.merge import Merged
    from shared.search.notes import ChatNotes, NoteIndex
    from shared.turns.speakers import Speaker

#: How many of the newest items that name a time are read for the days that a question asks about.
DATED = 100
#: What naming such a day counts where the question has a subject and may look back as well ("How far did I run this week?"): too little to decide.
WEAK_DATE = 0.01
#: Items read in addition to the requested number, since repetitions are merged; and the maximum in a chat of repetitions.
SPARE, MOST_READ = 8, 1000


@dataclass(frozen=True)
class Sources:
    """Where a lookup reads. `lexical` is None where there is no release. `embed_query` makes the query vector for the day's turns if the release's
    own index is not open. `notes`: those of the release, if it has any."""

    lexical: LexicalIndex | None
    backend: MemoryBackend
    pool: ThreadPoolExecutor
    zone: ZoneInfo
    embed_query: EmbedQuery | None = None
    notes: NoteIndex | None = None


def look_up(sources: Sources, query: Query) -> Recalled:
    """An unreadable file never raises here. ValueError if the day's turns are those of another chat."""
    started = time.perf_counter()
    if query.day is not None and query.day.chat_id != query.chat_id:
        raise ValueError(
            f"Chat {query.chat_id!r} was asked with the day's turns of chat {query.day.chat_id!r}. Nothing is recalled across chats."
        )
    degraded: list[str] = []
    hits: list[Hit] = []
    evidence: Evidence | None = None
    speakers: tuple[Speaker, ...] = ()
    for readable in (sources, replace(sources, lexical=None)) if query.day else (sources,):
        try:
            lookup = _Lookup(readable, query, degraded)
            hits, evidence, speakers = lookup.hits(), lookup.evidence, lookup.speakers
            break
        except sqlite3.Error as error:
            degraded.append(f"no recalled text: {without_words(error)}")
    return Recalled(hits, list(dict.fromkeys(degraded)), (time.perf_counter() - started) * 1000, evidence, speakers)


class _Lookup:
    """One try, with the release or without it."""

    def __init__(self, sources: Sources, query: Query, degraded: list[str]) -> None:
        self._sources, self._query, self._degraded = sources, query, degraded
        self._message = read_message(query.text, time.time() if query.now is None else query.now, sources.zone)
        self.evidence: Evidence | None = None
        self.speakers: tuple[Speaker, ...] = ()
        self._lexical = sources.lexical
        self._postings: dict[str, Posting] = {}  # of the question's terms
        self._notes: ChatNotes | None = None
        self._dated: Array | None = None  # the items that name a day for which the question asks
        self._of_turns: Array | None = None  # the cosines of the turns themselves, without their notes

    def hits(self) -> list[Hit]:
        from shared.ranking.scoring import score  # numpy, late, as the next one
        from shared.search.merge import merge

        lexical, query = self._sources.lexical, self._query
        release = lexical.items(query.chat_id) if lexical else None
        if not release and not query.day:
            if not self._sources.backend.is_available():
                self._no_vectors(str(self._sources.backend.why_not))
            return []
        ends = None if query.deadline_seconds is None else time.perf_counter() + query.deadline_seconds
        holding = lexical.holding if lexical else lambda *_: ()
        merged = merge(query.chat_id, release, query.day, query.hidden, holding)
        self.speakers = tuple(merged.speakers)
        self._notes = self._notes_of(release)
        comparing = self._compare(merged)
        question = self._question(merged)
        scored = score(question, merged.features, self._cosines(comparing, ends))
        self.evidence = self._evidence(merged, scored)
        return self._read(merged, scored, min(query.k, query.enough(self.evidence)) if query.enough else query.k)

    def _notes_of(self, release: ChatItems | None) -> ChatNotes | None:
        """The notes of the chat's turns. Keys only: without them, the turns are found by their own words."""
        if self._sources.notes is None or release is None:
            return None
        try:
            return self._sources.notes.of_chat(release)
        except sqlite3.Error as error:
            self._degraded.append(f"no notes: {without_words(error)}")
            return None

    def _no_vectors(self, why: str) -> None:
        self._degraded.append(f"no vector search: {why}")

    def _compare(self, merged: Merged) -> Future[tuple[Array | None, str | None]] | None:
        """Start the comparison by similarity; the question is embedded once for release and day."""
        backend, day = self._sources.backend, merged.day if merged.has_day else None
        available = backend.is_available()
        can_embed = available or self._sources.embed_query is not None
        if not available and (merged.release or not can_embed):
            self._no_vectors(str(backend.why_not))
        if day and can_embed and not day.vectors:
            self._no_vectors("today's turns have no vectors yet")
        embed = backend.vector if available else self._sources.embed_query
        of_release, of_day = available and bool(merged.release), bool(day and day.vectors)
        if embed is None or not (of_release or of_day):
            return None
        return self._sources.pool.submit(self._both, merged, of_release, embed)

    def _both(self, merged: Merged, of_release: bool, embed: EmbedQuery) -> tuple[Array | None, str | None]:
        """The similarities of all items, and why some are missing. Runs in a thread that the caller may stop waiting for."""
        query, backend, why = self._query, self._sources.backend, None
        asked, centre = embed(query.text), backend.centre(query.chat_id)
        released, noted, today = None, None, None
        if of_release and merged.release:
            released = backend.similarities(query.text, query.chat_id, merged.release.chunk_ids)
            if asked is not None:
                noted = self._notes.best(released, centred(asked, centre)) if self._notes else None
                released = whole(released, asked, centre)
        if merged.has_day and merged.day and merged.day.vectors:
            if asked is None:
                why = "the day's embedder is not available"
            else:
                today = merged.day.similarities(asked, centre)
        self._of_turns = merged.cosines(released, today)
        if noted is not None and asked is not None:
            return merged.cosines(whole(noted, asked, centre), today), why
        return self._of_turns, why

    def _question(self, merged: Merged) -> Question:
        from shared.ranking.scoring import Question

        query, message = self._query, self._message
        words, times = query_words(query.text), message.times
        # A question about a time only ("what did we talk about yesterday?") has no word to search for.
        asked = [] if message.asks_for_a_time else query_words(times.rest)
        terms = question_terms(asked)
        self._postings = self._standing(merged, terms)
        speaker = merged.of_speakers(meant_speakers(words, merged.speakers, query.asker))
        then = merged.said_in(times.spans) if times.spans else None
        self._dated = self._naming(merged, times.ahead) if message.asks_ahead else None
        from_now = times.from_now or message.asks_for_a_time
        notes = self._by_notes(merged, terms)
        prefers = self._prefers(merged) if asks_for_advice(words) else None
        whole = [self._postings[term] for term in terms if term in self._postings]
        missing = len(terms) - len(whole)
        return Question(whole, speaker, asks_when(words), then, from_now, self._dated, missing, notes, prefers)

    def _naming(self, merged: Merged, days: Sequence[Span]) -> Array:
        """How much each item counts as one of these days: it does if it names one, or a part of it, seen from when it was said."""
        import numpy as np

        counts = 1.0 if self._message.asks_only_ahead else WEAK_DATE
        found = np.zeros(len(merged), np.float32)
        newest = np.flatnonzero(merged.features.timed)[-DATED:].astype(np.int32)
        for item, chunk in self._chunks(merged, newest).items():
            found[item] = counts * names_one_of(days, chunk.text, chunk.started_at, self._sources.zone)
        return found

    def _standing(self, merged: Merged, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these terms stand in release and day, without missing ones; in the day alone once the release cannot be read."""
        of_release: dict[str, Posting] = {}
        try:
            if self._lexical and merged.release:
                of_release = self._lexical.postings(merged.release, terms)
        except sqlite3.Error as error:
            self._degraded.append(f"no keyword search: {without_words(error)}")
            self._lexical = None
        return merged.postings(of_release, merged.day.postings(terms) if merged.day else {})

    def _prefers(self, merged: Merged) -> Array:
        """1 for items that hold a word of preference."""
        from shared.ranking.scoring import standing

        return standing(self._standing(merged, _terms_of_each(PREFERENCE)), len(merged)).clip(max=1)

    def _by_notes(self, merged: Merged, terms: Sequence[str]) -> Array | None:
        if self._notes is None:
            return None
        try:
            return merged.of_release(self._notes.by_words(terms))
        except sqlite3.Error as error:
            self._degraded.append(f"no notes: {without_words(error)}")
            return None

    def _evidence(self, merged: Merged, scored: Scored) -> Evidence:
        """The evidence for injecting anything at all, from the same terms and cosines as the ranking."""
        from shared.ranking.scoring import best_cosine, coverage

        message = self._message
        words = [question_terms([word]) for word in message.telling]
        share, rarity, found = coverage(words, self._postings, len(merged))
        words_asked = set(query_words(self._query.text))
        named = any(name.lower() in words_asked for role, name, _ in merged.speakers if is_named(role, name))
        present = (any(term in self._postings for term in terms) for terms in words)
        names = {there for word, there in zip(message.telling, present, strict=True) if word in message.names}
        weighed = Evidence(
            message,
            len(merged),
            share,
            rarity,
            found,
            # What is enough to inject was measured on turns, and a note is nearer to a question.
            cosine=None if scored.cosine is None else best_cosine(self._of_turns),
            then=int(merged.said_in(message.spans).sum()) if message.spans else 0,
            dated=0 if self._dated is None else int((self._dated == 1).sum()),
            named=named or True in names,
            unknown_name=False in names,
        )
        return replace(weighed, foreign=self._foreign(merged)) if may_be_foreign(weighed) else weighed

    def _foreign(self, merged: Merged) -> float:
        """Share of the items that are in another language than the message, as their sentence words show."""
        from shared.ranking.scoring import standing

        shown = {
            language: standing(self._standing(merged, _terms_of_each(tuple(words))), len(merged))
            for language, words in SHOWN_BY.items()
        }
        own, others = shown.pop(self._message.language), sum(shown.values())
        has_language = own + others > 0
        return float((others > own).sum() / has_language.sum()) if has_language.any() else 0.0

    def _cosines(self, comparing: Future[tuple[Array | None, str | None]] | None, ends: float | None) -> Array | None:
        if comparing is None:
            return None
        try:
            cosines, why = comparing.result(timeout=None if ends is None else max(0.0, ends - time.perf_counter()))
        except Exception as error:  # noqa: BLE001 - an index or an embedder may raise anything; the answer must be sent
            # An embedder's own timeout is the same class.
            late = isinstance(error, FutureTimeout) and not comparing.done()
            cosines = None
            why = f"no answer within {self._query.deadline_seconds:.3f} s" if late else str(error) or repr(error)
        if why:
            self._no_vectors(why)
        return cosines

    def _read(self, merged: Merged, scored: Scored, k: int) -> list[Hit]:
        """The chunks of the `k` best items, of this chat only, each text once."""
        from shared.ranking.scoring import best

        least = len(self._query.known)
        wanted, chunks, once = k + SPARE + least, dict[int, Chunk](), list[list[int]]()
        inside, marks = merged.inside(self._query.since, self._query.until), merged.namesakes
        while True:
            only_found = scored.cosine is None and not self._message.asks_for_a_time
            ranked = best(scored, wanted, only_found=only_found, inside=inside)
            chunks = self._chunks(merged, ranked)
            items = list(chunks)
            once = groups([(_whose(chunk, marks), chunk.text) for chunk in chunks.values()])
            if len(once) >= k or len(ranked) < wanted or wanted >= MOST_READ + least:
                break
            wanted = min(4 * wanted, MOST_READ + least)
        found = [[items[place] for place in group] for group in once[:k]]
        firsts = [first for first, *_ in found]
        questions = self._questions(merged, [chunks[first] for first in firsts])
        scores = scored.explain(firsts)
        return [
            _hit(chunks[first], score, [chunks[at] for at in again], questions, marks.get(chunks[first].person, ""))
            for (first, *again), score in zip(found, scores, strict=True)
        ]

    def _chunks(self, merged: Merged, ranked: Integers) -> dict[int, Chunk]:
        """By item, in the order of the ranking, without what is already known, hidden, or a row of another chat."""
        query, lexical, known = self._query, self._sources.lexical, self._query.known
        rows = list(zip(ranked.tolist(), merged.rows(ranked), strict=True))
        names, first = merged.release.chunk_ids if merged.release else (), merged.first_of_day
        stored = {item: names[row] for item, row in rows if row < first}
        if known:  # a release's chunks are of one turn each, which leads their names
            stored = {item: name for item, name in stored.items() if name.rpartition("#")[0] not in known}
        read = lexical.chunks(list(stored.values()), query.chat_id) if lexical and stored else {}
        found: dict[int, Chunk] = {}
        for item, row in rows:
            chunk = read.get(stored.get(item, "")) if row < first else self._of_day(merged, row)
            if chunk and chunk.chat_id == query.chat_id and not (query.hidden and query.hidden.covers(chunk)):
                found[item] = chunk
        return found

    def _of_day(self, merged: Merged, row: int) -> Chunk | None:
        """None if all its turns are already known."""
        chunk, known = merged.of_day(row), self._query.known
        return None if known and known.issuperset(chunk.turn_ids) else chunk

    def _questions(self, merged: Merged, chunks: Sequence[Chunk]) -> dict[str, str]:
        """The questions of these answers, by exchange, without hidden ones."""
        lexical, chat_id, hidden = self._sources.lexical, self._query.chat_id, self._query.hidden
        found = merged.day_questions({chunk.exchange for chunk in chunks if chunk.role == "asst"})
        if not lexical:
            return found
        stored = lexical.questions_of(chunks, chat_id)
        if hidden:
            asked = lexical.chunks([f"{exchange}:user#1" for exchange in stored], chat_id).values()
            seen = {chunk.exchange for chunk in asked if not hidden.covers(chunk)}
            stored = {exchange: text for exchange, text in stored.items() if exchange in seen}
        return found | stored


@cache
def _terms_of_each(words: tuple[str, ...]) -> list[str]:
    """The terms of words that are known beforehand; of each by itself, since together they would be sentence words of a message."""
    return [term for word in words for term in question_terms([word])]


def _whose(chunk: Chunk, marks: Mapping[Speaker, str]) -> tuple[str, str, str, Origin]:
    """What makes equal texts different: two people of one name, or replies to different messages; some turns of a person may lack the id."""
    return chunk.role, chunk.speaker, marks.get(chunk.person, ""), chunk.origin


def _hit(chunk: Chunk, scores: dict[str, float], again: list[Chunk], questions: dict[str, str], mark: str = "") -> Hit:
    words = scores.pop("words", None)
    also = dict.fromkeys(turn for other in again for turn in other.turn_ids if turn not in chunk.turn_ids)
    return Hit(
        chunk,
        scores.pop("total"),
        questions.get(chunk.exchange) if chunk.role == "asst" else None,
        scores,
        tuple(also),
        words,
        mark,
    )
