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
from shared.errors import HmemError, ReleaseRefused
from shared.release.integrity import damage_named, open_closed
from shared.release.manifest import LEXICAL, Manifest, read_manifest
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns, Query
from shared.system.privileges import close_to_others
from shared.turns.chunk import Chunk

#: Number of chats that are probed, spread over all; a sample only (the hashes verify the content).
PROBED_CHATS = 50
#: A text that every embedder accepts.
PLAIN_WORDS = "first words"


def run_trial(path: Path, state_dir: Path, current: Path | None = None) -> dict[str, Any]:
    """The gate's record, or {} without a current release; ReleaseRefused."""
    release = _open(path, state_dir)
    try:
        if release.manifest.indexes and release.vectors_missing:
            raise ReleaseRefused(f"no vector search: {release.vectors_missing}")
        for chat_id, text in _probes(path, release.manifest, _with_news(release.manifest, path, current)):
            _ask_for_own_words(release, chat_id, text)
        return _compare(release, current, state_dir) if current else {}
    finally:
        release.close()


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


def _with_news(manifest: Manifest, path: Path, current: Path | None) -> list[str]:
    """The chats that are not as in the current release: first those that have more chunks or fewer, then those in new parts of the texts."""
    try:
        old = read_manifest(current) if current else None
    except HmemError:
        old = None
    if old is None:
        return []
    counts = old.chunks_per_chat
    changed = [chat for chat, count in manifest.chunks_per_chat.items() if counts.get(chat) != count]
    new = [name for name in manifest.files if name.startswith(f"{LEXICAL}/") and name not in old.files]
    for name in new:
        with damage_named(path / name), closing(open_closed(path / name)) as connection:
            changed += [chat for (chat,) in connection.execute("SELECT chat_id FROM chats ORDER BY chat_no")]
    return changed


def _probes(path: Path, manifest: Manifest, news: list[str]) -> list[tuple[str, str]]:
    """The question for each chat of a sample; chats whose first text has no vector are checked here, by keyword."""
    chats = [chat for chat, count in manifest.chunks_per_chat.items() if count]
    not_embedded, index = manifest.ledger.get("not_embedded", {}), LexicalIndex(path / LEXICAL)
    try:
        found = [index.first_chunk(chat) for chat in gate.sampled(news, chats, manifest.run, PROBED_CHATS)]
        firsts = [chunk for chunk in found if chunk]
        refused = {chunk.chunk_id for chunk in firsts if chunk.chunk_id in not_embedded}
        if any(not index.search(one.text, one.chat_id, 5) for one in firsts if one.chunk_id in refused):
            raise ReleaseRefused("the first words of a chat are not found in it")
        return [(one.chat_id, one.text) for one in firsts if one.chunk_id not in refused]
    finally:
        index.close()


def _compare(release: OpenRelease, current: Path, state_dir: Path) -> dict[str, Any]:
    """The gate's record. A current release that cannot be opened is no reference: the new one replaces it."""
    try:
        chats = _sample(release, current)
        texts = {chunk.chunk_id: chunk for chunk in chunks_in(current, chats)}
        old = _open(current, state_dir)
    except (HmemError, sqlite3.Error) as error:
        return {"questions": 0, "refuse": None, "warn": f"The current release could not be searched: {error}"}
    try:
        both = [chunk for chunk in chunks_in(release.path, chats) if chunk == texts.get(chunk.chunk_id)]
        ids = {chunk.chunk_id for chunk in both}
        probes = gate.choose(both)
        before, now = ([finds(opened, probe, ids) for probe in probes] for opened in (old, release))
        return gate.verdict(before, now, gate.chats_gone(release.manifest, old.manifest))
    finally:
        old.close()


def _sample(release: OpenRelease, current: Path) -> list[str]:
    """The chats that the gate's questions come from: of those that both releases have, chats with news first."""
    manifest, counts = release.manifest, read_manifest(current).chunks_per_chat
    chats = [chat for chat, count in manifest.chunks_per_chat.items() if count and counts.get(chat)]
    return gate.sampled(_with_news(manifest, release.path, current), chats, manifest.run, gate.PROBED_CHATS)


def chunks_in(path: Path, chats: Iterable[str] | None = None) -> list[Chunk]:
    """The chunks of a release, or of these chats in it, in order of chat and time."""
    index = LexicalIndex(path / LEXICAL)
    try:
        return (
            index.all_chunks()
            if chats is None
            else [chunk for chat in sorted(chats) for chunk in index.chunks_of(chat)]
        )
    finally:
        index.close()


def finds(release: OpenRelease, probe: gate.Probe, in_both: set[str], hidden: HiddenTurns | None = None) -> bool:
    """Whether the release answers the gate's question; hidden turns are as if they were not in it. ReleaseRefused for a row of another chat."""
    hits = release.recall(Query(probe.chat_id, probe.question, gate.ASKED, hidden=hidden or HiddenTurns())).hits
    if any(hit.chunk.chat_id != probe.chat_id for hit in hits):
        raise ReleaseRefused("a row of another chat was returned")
    # Repeated words are returned once, as the newer turn: the older one counts as found with it.
    ranked = [[hit.chunk.chunk_id, *(f"{turn_id}#{hit.chunk.passage}" for turn_id in hit.also)] for hit in hits]
    return gate.found([chunk_id for row in ranked for chunk_id in row], probe.chunk_id, in_both)


def main() -> int:
    close_to_others()
    try:
        current = Path(sys.argv[3]) if len(sys.argv) > 3 else None
        record = run_trial(Path(sys.argv[1]), Path(sys.argv[2]), current)
    except HmemError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.buffer.write(b"\n" + orjson.dumps(record) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
