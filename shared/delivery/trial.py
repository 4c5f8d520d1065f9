"""Open a release and search it, in a separate process: `python -m shared.delivery.trial RELEASE STATE_DIR [CURRENT]`.

Exit 0 if the first chunk of each chat of a sample (chats with news first, the others in turns) can be read, is found by its own words, and no
row of another chat is returned. A text that the embedder
refuses is not the release's fault: texts that the night could not embed are searched by keyword only, and others are ignored if plain words pass.
With CURRENT, both releases get the gate's questions (shared/delivery/gate.py); the gate's record is printed as JSON.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from shared.config.settings import load_settings
from shared.delivery import gate
from shared.errors import HmemError, ReleaseRefused, without_words
from shared.release.chats import ChatTable, changed_chats
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


def run_trial(path: Path, state_dir: Path, current: Path | None = None) -> dict[str, Any]:
    """The gate's record, or {} without a current release; ReleaseRefused."""
    with closing(_open(path, state_dir)) as release:
        if release.manifest.indexes and release.vectors_missing:
            raise ReleaseRefused(f"no vector search: {release.vectors_missing}")
        chats, news = _chats(path, release.manifest), _with_news(path, current)
        for chat_id, text in _probes(release, chats, news):
            _ask_for_own_words(release, chat_id, text)
        return _compare(release, current, state_dir, chats, news) if current else {}


def _open(path: Path, state_dir: Path) -> OpenRelease:
    settings = load_settings(hmem_state_dir=state_dir)
    if (
        settings.memory_backend not in read_manifest(path).indexes
    ):  # the index that this host uses, else any that exists
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


def _with_news(path: Path, current: Path | None) -> list[str]:
    """Chats that are not as in the current release: first the ones with more chunks or fewer."""
    if current is None:
        return []
    try:
        same = {chat: new["chunks"] == old["chunks"] for chat, new, old in changed_chats(path, current)}
        return sorted(same, key=lambda chat: same[chat])
    except (HmemError, sqlite3.Error):  # a damaged current release is no reference; all of this one is read by `_chats`
        return []


def _probes(release: OpenRelease, chats: list[str], news: list[str]) -> list[tuple[str, str]]:
    """The question for each chat of a sample; chats whose first text has no vector are checked here, by keyword."""
    not_embedded = release.manifest.ledger.get("not_embedded", {})
    with closing(LexicalIndex(release.path / LEXICAL)) as index:
        found = [index.first_chunk(chat) for chat in gate.sampled(news, chats, release.run, PROBED_CHATS)]
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


def _compare(release: OpenRelease, current: Path, state_dir: Path, chats: list[str], news: list[str]) -> dict[str, Any]:
    """The gate's record. A current release that cannot be opened is no reference: the new one replaces it."""
    try:
        asked = _sample(release, current, chats, news)
        texts = {chunk.chunk_id: chunk for chunk in _chunks_in(current, asked)}
        gone = gate.chats_gone(changed_chats(release.path, current))
        old = _open(current, state_dir)
    except (HmemError, sqlite3.Error) as error:
        return gate.verdict([], [], []) | {"warn": f"The current release could not be searched: {without_words(error)}"}
    with closing(old):
        both = [chunk for chunk in _chunks_in(release.path, asked) if chunk == texts.get(chunk.chunk_id)]
        ids = {chunk.chunk_id for chunk in both}
        probes = gate.choose(both)
        before, now = ([_finds(opened, probe, ids) for probe in probes] for opened in (old, release))
        return gate.verdict(before, now, gone)


def _sample(release: OpenRelease, current: Path, chats: list[str], news: list[str]) -> list[str]:
    """The chats that the gate's questions come from: in both releases, and chats with news first."""
    with ChatTable.of(current) as table:
        served = frozenset(table.ids())
    return gate.sampled(news, [chat for chat in chats if chat in served], release.run, gate.PROBED_CHATS)


def _chunks_in(path: Path, chats: Iterable[str]) -> list[Chunk]:
    """The chunks of these chats in a release, in order of chat and time."""
    with closing(LexicalIndex(path / LEXICAL)) as index:
        return [chunk for chat in sorted(chats) for chunk in index.chunks_of(chat)]


def _finds(release: OpenRelease, probe: gate.Probe, in_both: set[str]) -> bool:
    """Whether the release answers the gate's question. ReleaseRefused for a row of another chat."""
    hits = release.recall(Query(probe.chat_id, probe.question, gate.ASKED)).hits
    if any(hit.chunk.chat_id != probe.chat_id for hit in hits):
        raise ReleaseRefused("a row of another chat was returned")
    # Repeated words are returned once, as the newer turn: the older one counts as found with it.
    ranked = [[hit.chunk.chunk_id, *(f"{turn_id}#{hit.chunk.passage}" for turn_id in hit.also)] for hit in hits]
    return gate.found([chunk_id for row in ranked for chunk_id in row], probe.chunk_id, in_both)


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
