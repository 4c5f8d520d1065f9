"""Build: `lexical.sqlite` and the vector index, in a new directory, closed and then proven. A crash discards all of it.

The vector index starts as a copy of the last night's where that is whole and nothing in it is gone (nightly/last_index.py), else from nothing;
either way it holds the same ids and vectors, and is proven in the same way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nightly.chunk_file import read_chunks
from nightly.index_rows import Rows, read_rows
from nightly.last_index import digest_of, hash_files, take
from nightly.night import Night
from shared import lexical
from shared.files import make_dir, remove_tree
from shared.integrity import refuse_leftovers
from shared.release import CHROMA, LEXICAL

#: Private copies that the proofs are made on; gone before the step is committed.
PROOF = "proof"


def run(night: Night, out: Path) -> dict[str, Any]:
    lexical.build(out / LEXICAL, read_chunks(night.output("chunk")))
    night.crash_point("build:lexical-built")
    rows = read_rows(night) if night.result("embed")["embedding"] and "chroma" in night.settings.indexes else None
    written = {} if rows is None else _write_vectors(night, rows, out / CHROMA)
    night.crash_point("build:closed")
    proof = make_dir(out / PROOF)
    proven = _prove(night, rows, out, proof)
    remove_tree(proof)
    refuse_leftovers(out)
    return {"indexes": [] if rows is None else ["chroma"], **written, **proven}


def _write_vectors(night: Night, rows: Rows, path: Path) -> dict[str, int]:
    """The index, closed; how many of its vectors came with the copy of the last one, and how many were written."""
    from shared.backends import chroma

    held = take(night, rows, path)
    chroma.build(path, rows.chats, held)
    copied = sum(len(ids) for ids in held.values())
    return {"copied_forward": copied, "added": len(rows) - copied}


def _prove(night: Night, rows: Rows | None, out: Path, proof: Path) -> dict[str, Any]:
    """Ask the closed files: what each chat has in them, counted there, and a hash of the vector index as it was proven."""
    expected = {chat: count for chat, count in night.result("chunk")["chunks_per_chat"].items() if count}
    keywords = lexical.check(out / LEXICAL, proof, expected)
    if rows is None:
        nothing = {"vectors": None, "not_embedded": 0}
        return {"indexed": {chat: {"keywords": count, **nothing} for chat, count in keywords.items()}}
    from shared.backends import chroma

    checked = chroma.check(out / CHROMA, proof / CHROMA, rows.chats)
    indexed = {
        chat: {
            "keywords": count,
            "vectors": checked.vectors.get(chat, 0) + rows.repeated[chat],
            "repeated": rows.repeated[chat],
            "not_embedded": rows.not_embedded[chat],
        }
        for chat, count in keywords.items()
    }
    return {"unreached": checked.unreached, "proven": {CHROMA: digest_of(hash_files(out / CHROMA))}, "indexed": indexed}
