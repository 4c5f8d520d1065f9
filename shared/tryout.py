"""Open a release and look something up in every chat, in a process of its own: `python -m shared.tryout RELEASE STATE_DIR`.

Exit 0 if each chat's first chunk can be read, is found by its own words, and no other chat's row comes with it. A text that the embedder
refuses is no fault of the release: those that the night could not embed are asked by keyword only, and another is forgiven if plain words pass.
"""

from __future__ import annotations

import sys
from pathlib import Path

from shared.errors import HmemError, ReleaseRefused
from shared.lexical import LexicalIndex
from shared.recall import OpenRelease
from shared.release import LEXICAL
from shared.settings import load_settings

#: Chats that are asked, spread over all; a probe, not a proof (the hashes prove the content).
PROBED_CHATS = 50
#: What every embedder takes.
PLAIN_WORDS = "first words"


def try_out(path: Path, state_dir: Path) -> None:
    release = OpenRelease(load_settings(hmem_state_dir=state_dir, memory_backend="auto"), path)
    try:
        release.open_vectors()
        if release.manifest.indexes and release.vectors_missing:
            raise ReleaseRefused(f"no vector search: {release.vectors_missing}")
        for chat_id, text in _probes(path, release.manifest.ledger.get("not_embedded", {})):
            recalled = release.recall(chat_id, text, 5)
            if (
                recalled.degraded
                and release.manifest.indexes
                and (why := release.recall(chat_id, PLAIN_WORDS, 1).degraded)
            ):
                raise ReleaseRefused(why[0])
            if not recalled.hits or any(hit.chunk.chat_id != chat_id for hit in recalled.hits):
                raise ReleaseRefused("a chat does not find its own first words")
    finally:
        release.close()


def _probes(path: Path, not_embedded: dict[str, str]) -> list[tuple[str, str]]:
    """What to ask each chat; those whose first text has no vector are asked here, by keyword."""
    index = LexicalIndex(path / LEXICAL)
    try:
        texts = index.first_texts(PROBED_CHATS)
        refused = {c.text for c in index.all_chunks() if c.chunk_id in not_embedded} if not_embedded else set()
        if any(not index.search(text, chat_id, 5) for chat_id, text in texts if text in refused):
            raise ReleaseRefused("a chat does not find its own first words")
        return [(chat_id, text) for chat_id, text in texts if text not in refused]
    finally:
        index.close()


def main() -> int:
    try:
        try_out(Path(sys.argv[1]), Path(sys.argv[2]))
    except HmemError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
