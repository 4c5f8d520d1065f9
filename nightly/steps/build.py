"""Build: `lexical/` and the vector indexes, in a new directory, closed and then verified. A crash discards all of it.

What is still valid in the last night's indexes is reused (nightly/index/previous.py), the rest is written; either way an index contains the same
ids, texts and vectors. New parts are verified after closing; reused parts were verified before, and their hashes have not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.index.chunk_file import Columns, read_chunks, read_columns
from nightly.index.previous import Digests, IdsByChat, IdsOf, Last, digest_of, hash_files, part_record
from nightly.index.rows import Rows, read_note_rows, read_rows
from nightly.index.servers import make_room
from nightly.night.folder import Night
from shared.release.integrity import refuse_leftovers
from shared.release.manifest import LEXICAL, NOTE_VECTORS, NOTES, PLACES
from shared.release.parts import Earlier, part_files
from shared.search import lexical
from shared.system.faults import crash_point
from shared.system.files import make_dir, remove_tree
from shared.turns.chunking import CHUNKER_VERSION
from shared.vectors.base import Builder, Checked
from shared.vectors.registry import SERVED, builder_of

#: Private copies for the checks, and indexes that are reused as a whole; removed before the step is committed.
PROOF, EARLIER = "proof", "earlier"


@dataclass(frozen=True)
class _Index:
    """One vector index of tonight."""

    name: str
    place: str
    builder: Builder
    made_with: dict[str, Any]
    earlier: Earlier | None


@dataclass(frozen=True)
class _Texts:
    """What a keyword index is built from: a folder of chunks, and how many each chat has."""

    place: str
    folder: Path
    columns: Columns
    per_chat: dict[str, int]


def run(night: Night, out: Path) -> dict[str, Any]:
    names = night.settings.indexes if night.result("embed")["embedding"] else ()
    builders = {name: builder_of(name, night.settings, night.run) for name in names}
    for builder in builders.values():
        builder.refuse_unless_usable()
    last, places, columns = Last(night), dict[str, dict[str, Any]](), read_columns(night.output("chunk"))
    expected = {chat: count for chat, count in night.result("chunk")["chunks_per_chat"].items() if count}
    keywords = _build_lexical(night, out, last, places, _Texts(LEXICAL, night.output("chunk"), columns, expected))
    notes = read_columns(night.output("note"))
    if len(notes):
        per_chat = night.result("note")["notes_per_chat"]
        _build_lexical(night, out, last, places, _Texts(NOTES, night.output("note"), notes, per_chat))
    crash_point("build:lexical-built")
    if not builders:
        crash_point("build:closed")
        proven = _digests(out, places, last)
        return {"indexes": [], "places": places, "proven": proven, "indexed": _indexed(keywords, None)}
    rows = read_rows(night, columns)
    make_room(night, names)
    indexes = [_take(night, name, builder, rows, last, out) for name, builder in builders.items()]
    for one in indexes:
        one.builder.build(out / one.place, rows.corpus, one.earlier)
    if len(notes):
        _build_note_vectors(night, out, last, places, notes)
    crash_point("build:closed")
    checked = [
        one.builder.check(out / one.place, make_dir(out / PROOF) / one.name, rows.corpus, one.earlier)
        for one in indexes
    ]
    remove_tree(out / PROOF)
    remove_tree(out / EARLIER)
    refuse_leftovers(out)
    places |= {one.place: _record(out, one, rows, last) for one in indexes if one.name not in SERVED}
    copied = rows.among(indexes[0].earlier.held) if indexes[0].earlier else 0
    return {
        "indexes": list(names),
        "copied_forward": copied,
        "added": rows.total - copied,
        "unreached": sum(one.unreached for one in checked),
        "places": places,
        "proven": _digests(out, [*places, *(one.place for one in indexes if one.name in SERVED)], last),
        "indexed": _indexed(keywords, rows, checked),
    }


def _build_lexical(
    night: Night, out: Path, last: Last, places: dict[str, dict[str, Any]], texts: _Texts
) -> dict[str, int]:
    """A keyword index, proven; how many of its texts are found by keyword, by chat."""
    made_with = {"chunker": CHUNKER_VERSION, "words": lexical.version()}
    place, wanted = texts.place, texts.columns.by_chat()
    earlier = last.parts(place, made_with, wanted, lexical.part_ids)
    held = set[str]().union(*earlier.held.values()) if earlier else set[str]()
    new = {row for row, chunk_id in enumerate(texts.columns.chunk_ids) if chunk_id not in held}
    lexical.build(out / place, night.run, read_chunks(texts.folder, new), earlier)
    places[place] = {"made_with": made_with, "parts": _parts(out, place, wanted, lexical.part_ids, last)}
    return lexical.check(out / place, texts.per_chat, earlier)


def _build_note_vectors(
    night: Night, out: Path, last: Last, places: dict[str, dict[str, Any]], columns: Columns
) -> None:
    """The vectors of the notes, proven; in SQLite files whatever NIGHT_INDEXES says, since every note of a chat is compared."""
    rows, builder = read_note_rows(night, columns), builder_of("sqlite", night.settings, night.run)
    made_with = {"version": builder.version(), "embedding": _embedding(night)}
    earlier = last.parts(NOTE_VECTORS, made_with, rows.wanted, _vector_ids())
    builder.build(out / NOTE_VECTORS, rows.corpus, earlier)
    builder.check(out / NOTE_VECTORS, out / PROOF, rows.corpus, earlier)
    parts = _parts(out, NOTE_VECTORS, rows.wanted, _vector_ids(), last)
    places[NOTE_VECTORS] = {"made_with": made_with, "parts": parts}


def _take(night: Night, name: str, builder: Builder, rows: Rows, last: Last, out: Path) -> _Index:
    """An index and what of the last one it starts from."""
    place = PLACES[name]
    made_with = {"version": builder.version(), "embedding": _embedding(night)}
    if name == "sqlite":
        earlier = last.parts(place, made_with, rows.wanted, _vector_ids())
    elif name in SERVED:
        earlier = None
    else:
        earlier = last.whole(place, made_with, rows.digests, out / EARLIER / place)
    return _Index(name, place, builder, made_with, earlier)


def _embedding(night: Night) -> dict[str, Any]:
    """The embedding of the vectors, without its probes, which are evidence of the model and not part of it."""
    return {key: value for key, value in night.result("embed")["embedding"].items() if key != "probes"}


def _record(out: Path, index: _Index, rows: Rows, last: Last) -> dict[str, Any]:
    """What the next night must know of an index to take it over."""
    if index.name == "sqlite":
        return {"made_with": index.made_with, "parts": _parts(out, index.place, rows.wanted, _vector_ids(), last)}
    return {"made_with": index.made_with, "rows": rows.digests}


def _parts(out: Path, place: str, wanted: Digests, ids_of: IdsOf, last: Last) -> dict[str, Any]:
    taken = last.taken_parts.get(place, {})
    return {path.name: taken.get(path.name) or part_record(ids_of(path), wanted) for path in part_files(out / place)}


def _vector_ids() -> IdsOf:
    from shared.vectors.sqlite.files import read_content  # numpy, late

    def ids_of(path: Path) -> IdsByChat:
        content = read_content(path)
        return {
            chat: [*content.ids.get(chat, ()), *content.repeats.get(chat, ())]
            for chat in {**content.ids, **content.repeats}
        }

    return ids_of


def _digests(out: Path, places: Iterable[str], last: Last) -> dict[str, str]:
    """A hash of each index as it was proven."""
    return {place: digest_of(hash_files(out / place, last.taken_files.get(place))) for place in places}


def _indexed(keywords: dict[str, int], rows: Rows | None, checked: Iterable[Checked] = ()) -> dict[str, dict[str, Any]]:
    """What each chat has in the indexes: of several the least that one of them holds (each proof refuses another than was asked for)."""
    if rows is None:
        nothing = {"vectors": None, "not_embedded": 0}
        return {chat: {"keywords": count, **nothing} for chat, count in keywords.items()}
    found = {chat: min(one.vectors.get(chat, 0) for one in checked) for chat in rows.corpus.chats}
    return {
        chat: {
            "keywords": count,
            "vectors": found.get(chat, 0) + rows.repeated(chat),
            "repeated": rows.repeated(chat),
            "not_embedded": rows.not_embedded[chat],
        }
        for chat, count in keywords.items()
    }
