"""Open a release and search it, in a separate process: `python -m shared.delivery.trial RELEASE STATE_DIR [CURRENT]`.

Exit 0 if the first chunk of each chat of a sample (chats with news first, the others in turns) can be read, is found by its own words, and no
row of another chat is returned. A text that the embedder
refuses is not the release's fault: texts that the night could not embed are searched by keyword only, and others are ignored if plain words pass.
With CURRENT, both releases get the questions of the recall gate, and its record is printed as JSON: whether the new one still finds what the
current one finds, compared in pairs. A question is made of a chunk's own words, so the right answer is known: that chunk. Only chunks in both
releases are used, and ranks count only these, so that a chat that has grown is not worse for it.

    far less  → the release is refused (`--accept` overrides)       a chat missing → the same
    less      → the night warns and continues                       another chat's row, no vectors, a crash → refused, even with --accept
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import orjson

from shared.config.settings import load_settings
from shared.errors import HmemError, ReleaseRefused, without_words
from shared.release.chats import ChatTable, Counts, changed_chats
from shared.release.integrity import damage_named
from shared.release.manifest import LEXICAL, Manifest, read_manifest
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.privileges import close_to_others
from shared.turns.chunk import Chunk

#: Number of chats that are probed, spread over all; a sample only (the hashes verify the content).
PROBED_CHATS = 50
#: What the manifest has of all chats together.
SUMS = ("chats", "turns", "chunks", "forgotten")
#: A text that every embedder accepts.
PLAIN_WORDS = "first words"

#: Maximum number of questions, and of chats that they come from: takes seconds, even if each chat has its own index.
PROBES = 100
ASKED_CHATS = 25
#: A chunk counts as found among the first FOUND_WITHIN hits; ASKED hits are requested, since new chunks do not count.
FOUND_WITHIN = 10
ASKED = 50
#: Words of a question.
WORDS = 6
#: Share of the questions that goes to chats with news.
NEWS_SHARE = 0.6
#: Shares of the questions, and numbers of them, by which the new release may find less than the current one.
REFUSE_SHARE, REFUSE_LEAST = 0.20, 4
WARN_SHARE, WARN_LEAST = 0.05, 2

_WORD = re.compile(r"\w+")


def run_trial(path: Path, state_dir: Path, current: Path | None = None) -> dict[str, Any]:
    """The gate's record, or {} without a current release; ReleaseRefused."""
    with closing(_open(path, state_dir)) as release:
        if release.manifest.indexes and release.vectors_missing:
            raise ReleaseRefused(f"no vector search: {release.vectors_missing}")
        chats, changed = _chats(path, release.manifest), _changed(path, current)
        # Chats with news: first the ones with more chunks or fewer.
        news = [chat for chat, _, _ in sorted(changed, key=lambda one: one[1]["chunks"] == one[2]["chunks"])]
        for chat_id, text in _probes(release, chats, news):
            _ask_for_own_words(release, chat_id, text)
        return _compare(release, current, state_dir, chats, news, chats_gone(changed)) if current else {}


def _open(path: Path, state_dir: Path) -> OpenRelease:
    settings = load_settings(hmem_state_dir=state_dir)
    # The index that this host uses, else any that exists.
    if settings.memory_backend not in read_manifest(path).indexes:
        settings = load_settings(hmem_state_dir=state_dir, memory_backend="auto")
    release = OpenRelease(settings, path)
    if release.text_missing:
        release.close()
        raise ReleaseRefused(release.text_missing)
    release.open_vectors()
    return release


def _ask_for_own_words(release: OpenRelease, chat_id: str, text: str) -> None:
    recalled = release.recall(Query(chat_id, text, 5))
    if (
        recalled.degraded
        and release.manifest.indexes
        and (why := release.recall(Query(chat_id, PLAIN_WORDS, 1)).degraded)
    ):
        raise ReleaseRefused(why[0])
    if not recalled.hits or any(hit.chunk.chat_id != chat_id for hit in recalled.hits):
        raise ReleaseRefused("the first words of a chat are not found in it")


def _changed(path: Path, current: Path | None) -> list[tuple[str, Counts, Counts]]:
    """The chats that are not as in the current release; none if that is damaged, as then it is no reference."""
    with suppress(sqlite3.Error):  # all of the new one was read by `_chats`
        return changed_chats(path, current) if current else []
    return []


def _probes(release: OpenRelease, chats: list[str], news: list[str]) -> list[tuple[str, str]]:
    """The question for each chat of a sample; chats whose first text has no vector are checked here, by keyword."""
    not_embedded = release.manifest.ledger.get("not_embedded", {})
    with closing(LexicalIndex(release.path / LEXICAL)) as index:
        found = [index.first_chunk(chat) for chat in sampled(news, chats, release.run, PROBED_CHATS)]
        firsts = [chunk for chunk in found if chunk]
        refused = {chunk.chunk_id for chunk in firsts if chunk.chunk_id in not_embedded}
        if any(not index.finding(one.text, one.chat_id) for one in firsts if one.chunk_id in refused):
            raise ReleaseRefused("the first words of a chat are not found in it")
        return [(one.chat_id, one.text) for one in firsts if one.chunk_id not in refused]


def _chats(path: Path, manifest: Manifest) -> list[str]:
    """The chats of a release that have chunks. ReleaseRefused if the counts of all chats do not add up to those of its manifest."""
    sums, chats = dict.fromkeys(SUMS, 0), list[str]()
    with damage_named(path), ChatTable.of(path) as table:
        for row in table:
            chats += [row.chat_id] if row.counts["chunks"] else []
            sums["chats"] += bool(row.counts["turns"])
            for name in SUMS[1:]:
                sums[name] += row.counts[name] or 0
    if sums != {name: getattr(manifest, name) for name in SUMS}:
        raise ReleaseRefused("the counts of its chats do not add up to those of its manifest")
    return chats


def _compare(
    release: OpenRelease, current: Path, state_dir: Path, chats: list[str], news: list[str], gone: list[str]
) -> dict[str, Any]:
    """The gate's record. A current release that cannot be opened is no reference: the new one replaces it."""
    try:
        with ChatTable.of(current) as table:
            served = frozenset(table.ids())
        asked = sampled(news, [chat for chat in chats if chat in served], release.run, ASKED_CHATS)
        texts = {chunk.chunk_id: chunk for chunk in _chunks_in(current, asked)}
        old = _open(current, state_dir)
    except (HmemError, sqlite3.Error) as error:
        return verdict([], [], []) | {"warn": f"The current release could not be searched: {without_words(error)}"}
    with closing(old):
        both = [chunk for chunk in _chunks_in(release.path, asked) if chunk == texts.get(chunk.chunk_id)]
        ids = {chunk.chunk_id for chunk in both}
        asked_for = choose(both)
        before, now = (
            [_finds(opened, chunk, question, ids) for chunk, question in asked_for] for opened in (old, release)
        )
        return verdict(before, now, gone)


def _chunks_in(path: Path, chats: Iterable[str]) -> list[Chunk]:
    """The chunks of these chats in a release, in order of chat and time."""
    with closing(LexicalIndex(path / LEXICAL)) as index:
        return [chunk for chat in sorted(chats) for chunk in index.chunks_of(chat)]


def _finds(release: OpenRelease, chunk: Chunk, question: str, in_both: set[str]) -> bool:
    """Whether the release answers the gate's question with its chunk. ReleaseRefused for a row of another chat."""
    hits = release.recall(Query(chunk.chat_id, question, ASKED)).hits
    if any(hit.chunk.chat_id != chunk.chat_id for hit in hits):
        raise ReleaseRefused("a row of another chat was returned")
    # Repeated words are returned once, as the newer turn: the older one counts as found with it.
    ranked = [[hit.chunk.chunk_id, *(f"{turn_id}#{hit.chunk.passage}" for turn_id in hit.also)] for hit in hits]
    return is_found([chunk_id for row in ranked for chunk_id in row], chunk.chunk_id, in_both)


# ── The gate: which questions are asked, and what the answers mean.


def choose(chunks: Iterable[Chunk]) -> list[tuple[Chunk, str]]:
    """Chunks, spread over chats, with the question that each answers; the same chunks always give the same questions."""
    per_chat: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        per_chat[chunk.chat_id].append(chunk)
    chats = sorted(per_chat, key=_shuffled)[:ASKED_CHATS]
    columns = [sorted(per_chat[chat], key=lambda chunk: _shuffled(chunk.chunk_id)) for chat in chats]
    in_turn = (chunk for chunk in chain.from_iterable(zip_longest(*columns)) if chunk is not None)
    asked = ((chunk, question_of(chunk.text)) for chunk in in_turn)
    return list(islice((one for one in asked if one[1]), PROBES))


def sampled(first: Iterable[str], chats: Collection[str], run: int, count: int) -> list[str]:
    """`count` of these chats: those of `first` for NEWS_SHARE of it, the others in turns, from run to run, so that each is asked at some time.

    All of them if there are no more. The same arguments always give the same chats.
    """
    if len(chats) <= count:
        return sorted(chats)
    known = frozenset(chats)
    news = [chat for chat in dict.fromkeys(first) if chat in known][: int(count * NEWS_SHARE)]
    others = sorted(known.difference(news))
    room = count - len(news)
    return [*news, *(others[(number * len(others) // room + run) % len(others)] for number in range(room))]


def _shuffled(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8")).digest()


def question_of(text: str) -> str:
    """The longest different words of a text, in their order."""
    words = list(dict.fromkeys(_WORD.findall(text)))
    longest = set(sorted(words, key=lambda word: (-len(word), words.index(word)))[:WORDS])
    return " ".join(word for word in words if word in longest)


def is_found(ranked: list[str], chunk_id: str, in_both: set[str]) -> bool:
    """Whether the chunk is among the first hits that both releases contain."""
    return chunk_id in [other for other in ranked if other in in_both][:FOUND_WITHIN]


def verdict(before: list[bool], now: list[bool], gone: list[str]) -> dict[str, Any]:
    """The gate's record: counts, and `refuse` and `warn` as sentences or None."""
    pairs = Counter(zip(before, now, strict=True))
    lost, won = pairs[True, False], pairs[False, True]
    counts = f"{sum(now)} of {len(now)} questions find their answer, {sum(before)} do in the current release"
    refuse = warn = None
    if gone:
        refuse = f"{len(gone)} chats can be recalled now, but would have no chunks in the new release."
    elif lost - won >= REFUSE_LEAST and lost - won > REFUSE_SHARE * len(now):
        refuse = f"The new release finds far less: {counts}."
    elif lost - won >= WARN_LEAST and lost - won > WARN_SHARE * len(now):
        warn = f"The new release finds less: {counts}."
    return {
        "questions": len(now),
        "found_before": sum(before),
        "found_now": sum(now),
        "lost": lost,
        "won": won,
        "refuse": refuse,
        "warn": warn,
    }


def chats_gone(both: Iterable[tuple[str, Counts, Counts]]) -> list[str]:
    """Chats that have chunks now and none in the new release, although not all of their turns are to be forgotten. `both`: the counts of each chat
    that may differ, in the new release and in the current one (shared/release/chats.py)."""
    return [
        chat
        for chat, now, before in both
        if before["chunks"] and not now["chunks"] and (now["turns"] or not now["forgotten"])
    ]


def main() -> int:
    close_to_others()
    path, state_dir, *current = map(Path, sys.argv[1:])
    try:
        record = run_trial(path, state_dir, *current)
    except HmemError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.buffer.write(b"\n" + orjson.dumps(record) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
