"""Build: `lexical.sqlite` and the vector indexes, in a new directory, closed and then proven. A crash discards all of it.

`vectors.sqlite` is written anew each night: 100,000 vectors take a second. Chroma takes half a minute for them, so its index starts as a copy
of the last night's where that is whole and nothing in it is gone (nightly/last_index.py), else from nothing; either way it holds the same
ids and vectors, and is proven in the same way.
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
from shared.release import CHROMA, LEXICAL, VECTORS

#: Private copies that the proofs are made on; gone before the step is committed.
PROOF = "proof"
#: Where each index stands in a release.
PLACES = {"sqlite": VECTORS, "chroma": CHROMA}


def run(night: Night, out: Path) -> dict[str, Any]:
    names = night.settings.indexes if night.result("embed")["embedding"] else ()
    if "chroma" in names:
        from shared.backends import chroma

        chroma.refuse_without_library()
    lexical.build(out / LEXICAL, read_chunks(night.output("chunk")))
    night.crash_point("build:lexical-built")
    rows = read_rows(night) if names else None
    written = {} if rows is None else _write_vectors(night, rows, out, names)
    night.crash_point("build:closed")
    proof = make_dir(out / PROOF)
    proven = _prove(night, rows, out, proof, names)
    remove_tree(proof)
    refuse_leftovers(out)
    return {"indexes": list(names), **written, **proven}


def _write_vectors(night: Night, rows: Rows, out: Path, names: tuple[str, ...]) -> dict[str, int]:
    """The indexes, closed; how many vectors came with the copy of the last one, and how many were written to each that has no copy."""
    copied = 0
    if "sqlite" in names:
        from shared.backends import sqlite

        sqlite.build(out / VECTORS, rows.chats, rows.repeats)
    if "chroma" in names:
        from shared.backends import chroma

        held = take(night, rows, out / CHROMA)
        chroma.build(out / CHROMA, rows.chats, held)
        copied = sum(len(ids) for ids in held.values())
    return {"copied_forward": copied, "added": len(rows) - copied}


def _prove(night: Night, rows: Rows | None, out: Path, proof: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Ask the closed files: what each chat has in them, counted there, and a hash of each vector index as it was proven."""
    expected = {chat: count for chat, count in night.result("chunk")["chunks_per_chat"].items() if count}
    keywords = lexical.check(out / LEXICAL, expected)
    if rows is None:
        nothing = {"vectors": None, "not_embedded": 0}
        return {"indexed": {chat: {"keywords": count, **nothing} for chat, count in keywords.items()}}
    vectors, more = _prove_vectors(rows, out, proof, names)
    indexed = {
        chat: {
            "keywords": count,
            "vectors": vectors.get(chat, 0) + rows.repeated(chat),
            "repeated": rows.repeated(chat),
            "not_embedded": rows.not_embedded[chat],
        }
        for chat, count in keywords.items()
    }
    digests = {PLACES[name]: digest_of(hash_files(out / PLACES[name])) for name in names}
    return {**more, "proven": digests, "indexed": indexed}


def _prove_vectors(rows: Rows, out: Path, proof: Path, names: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """The least number of vectors that an index holds of each chat (each proof refuses another than was asked for), and what else was seen."""
    held: list[dict[str, int]] = []
    more: dict[str, int] = {}
    if "sqlite" in names:
        from shared.backends import sqlite

        held.append(sqlite.check(out / VECTORS, rows.chats, rows.repeats))
    if "chroma" in names:
        from shared.backends import chroma

        checked = chroma.check(out / CHROMA, proof / CHROMA, rows.chats)
        held.append(checked.vectors)
        more = {"unreached": checked.unreached}
    return {chat: min(one.get(chat, 0) for one in held) for chat in rows.chats}, more
