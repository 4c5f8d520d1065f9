"""Open a release and search it, in a separate process: `python -m shared.delivery.trial RELEASE STATE_DIR [CURRENT]`.

Exit 0 if each chat's first chunk can be read, is found by its own words, and no row of another chat is returned. A text that the embedder
refuses is not the release's fault: texts that the night could not embed are searched by keyword only, and others are ignored if plain words pass.
With CURRENT, both releases get the gate's questions (shared/delivery/gate.py); the gate's record is printed as JSON.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import orjson

from shared.config.settings import load_settings
from shared.delivery import gate
from shared.errors import HmemError, ReleaseRefused
from shared.release.manifest import LEXICAL, read_manifest
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
        for chat_id, text in _probes(path, release.manifest.ledger.get("not_embedded", {})):
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


def _probes(path: Path, not_embedded: dict[str, str]) -> list[tuple[str, str]]:
    """The question for each chat; chats whose first text has no vector are checked here, by keyword."""
    index = LexicalIndex(path / LEXICAL)
    try:
        texts = index.first_texts(PROBED_CHATS)
        refused = {c.text for c in index.all_chunks() if c.chunk_id in not_embedded} if not_embedded else set()
        if any(not index.search(text, chat_id, 5) for chat_id, text in texts if text in refused):
            raise ReleaseRefused("the first words of a chat are not found in it")
        return [(chat_id, text) for chat_id, text in texts if text not in refused]
    finally:
        index.close()


def _compare(release: OpenRelease, current: Path, state_dir: Path) -> dict[str, Any]:
    """The gate's record. A current release that cannot be opened is no reference: the new one replaces it."""
    try:
        texts = {chunk.chunk_id: chunk for chunk in chunks_in(current)}
        old = _open(current, state_dir)
    except (HmemError, sqlite3.Error) as error:
        return {"questions": 0, "refuse": None, "warn": f"The current release could not be searched: {error}"}
    try:
        both = [chunk for chunk in chunks_in(release.path) if chunk == texts.get(chunk.chunk_id)]
        ids = {chunk.chunk_id for chunk in both}
        probes = gate.choose(both)
        before, now = ([finds(opened, probe, ids) for probe in probes] for opened in (old, release))
        return gate.verdict(before, now, gate.chats_gone(release.manifest, old.manifest))
    finally:
        old.close()


def chunks_in(path: Path) -> list[Chunk]:
    """Every chunk of a release, in order of chat and time."""
    index = LexicalIndex(path / LEXICAL)
    try:
        return list(index.all_chunks())
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
