"""Tonight's indexes: of each place the parts that are taken over, the rows that are written, and the proof of what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.index.chunk_file import ChunkFolder
from nightly.index.part_rows import PartRows, VectorRows, WordRows, own_words
from nightly.index.previous import Last, Plan, Sums, hash_files, refuse_another_start
from nightly.index.recipe import comparable
from nightly.index.rows import Rows, read_note_rows
from nightly.night.folder import Night
from shared.config.kinds import place_of
from shared.errors import LedgerMismatch
from shared.release.manifest import LEXICAL, NOTE_VECTORS, NOTES
from shared.release.manifest_schema import File
from shared.release.parts import Earlier, part_files
from shared.search import lexical
from shared.system.files import make_dir
from shared.turns.chunking import CHUNKER_VERSION, indexed_text
from shared.vectors.base import Builder, Checked, Corpus, builder_of

#: Private copies for the checks; removed before the step is committed.
PROOF = "proof"
#: As what the rows in the parts of a place are counted (shared/release/chats.py).
COUNTED_AS = {LEXICAL: "keywords", NOTES: "notes", place_of("sqlite"): "vectors", NOTE_VECTORS: "note_vectors"}


@dataclass(frozen=True)
class Index:
    """One vector index of tonight. `given`: what its builder is given."""

    name: str
    place: str
    builder: Builder
    given: Corpus
    plan: Plan | None = None  # of an index in parts

    @property
    def earlier(self) -> Earlier | None:
        return self.plan.earlier if self.plan else None


class Build:
    """The indexes of tonight, and what is reported of each place."""

    def __init__(self, night: Night, out: Path) -> None:
        """StorageError if what the last night left is not what the chats with news were chosen by."""
        self._night, self._out, self._last = night, out, Last(night)
        self.chunks = ChunkFolder(night.output("chunk"))
        made = night.result("chunk")
        refuse_another_start(night, self._last)
        self._tonight = None if made["everything"] else frozenset(made["accounts"])
        self._carried: Sums = made["carried"]
        #: Vectors of the chats that are not done again, each counted once.
        self.carried_vectors: int = self._carried["vectors"] - self._carried["repeated"]
        self._places: dict[str, dict[str, Any]] = {}
        self._note_vectors: dict[str, int] = {}
        self._taken: dict[str, File] = {}

    def notes(self) -> ChunkFolder | None:
        """Tonight's notes; None if no chat has any."""
        notes = ChunkFolder(self._night.output("note"))
        return notes if len(notes) or self._carried["notes"] else None

    def words(self, place: str, folder: ChunkFolder) -> dict[str, int]:
        """Build a keyword index and prove it; how many of tonight's texts are found by keyword, by chat."""
        settings, target = self._night.settings, self._out / place
        made_with = {"chunker": CHUNKER_VERSION, "words": lexical.version(), "timezone": settings.chat_timezone}
        rows = WordRows(folder, settings.timezone, indexed=indexed_text if place == LEXICAL else own_words)
        plan, written = self._last.plan(place, made_with, rows, self._tonight), Counter[str]()
        lexical.build(target, self._night.run, rows.rows(plan.held, plan.merged, plan.others, written), plan.earlier)
        found = Counter(lexical.check(target, written, plan.earlier))
        for name in plan.taken:
            found.update(lexical.count(target / name, folder.chats))
        self._note_parts(place, made_with, rows, plan, written.total())
        if wrong := [chat for chat in folder.chats if found[chat] != rows.wanted(chat)]:
            raise LedgerMismatch(
                f"{target} has {found[wrong[0]]} of {rows.wanted(wrong[0])} chunks of chat {wrong[0]}. "
                "Nothing was published; run the night again."
            )
        return {chat: found[chat] for chat in folder.chats}

    def index(self, name: str, builder: Builder, rows: Rows) -> Index:
        """An index, and what is written: of one in parts what no earlier part holds, of any other all."""
        if name == "sqlite":
            return self._in_parts(place_of(name), builder, rows)
        return Index(name, place_of(name), builder, rows.corpus())

    def note_vectors(self, notes: ChunkFolder) -> None:
        """The vectors of the notes, proven; in SQLite files whatever NIGHT_INDEXES says, since every note of a chat is compared."""
        rows, builder = read_note_rows(self._night, notes), builder_of("sqlite", self._night.settings, self._night.run)
        one = self._in_parts(NOTE_VECTORS, builder, rows)
        builder.build(self._out / NOTE_VECTORS, one.given, one.earlier)
        self.check(one, rows)
        self._note_vectors = {chat: rows.counts(chat).vectors + rows.counts(chat).repeats for chat in rows.chats}

    def check(self, one: Index, rows: Rows) -> Checked:
        """The proof of a closed index, or of what was written to it, with the vectors of tonight's chats in the parts that were taken over."""
        scratch = make_dir(self._out / PROOF) / one.name
        checked = one.builder.check(self._out / one.place, scratch, one.given, one.earlier)
        if one.plan is None:
            return checked
        from shared.vectors.vector_files import chats_in  # numpy, late

        counted = Counter(checked.vectors)
        for name in one.plan.taken:
            held = chats_in(self._out / one.place / name)
            counted.update({chat: held[chat][0] for chat in rows.chats if chat in held})
        given = len(one.given) + sum(map(len, one.given.repeats.values()))
        self._note_parts(one.place, self._made_with(), VectorRows(rows, one.given.dimensions), one.plan, given)
        return Checked(counted, checked.unreached)

    def result(self, indexes: Sequence[Index] = ()) -> dict[str, Any]:
        """What later steps and the next night need: the places in parts, all files with their hashes, the vectors of notes by chat."""
        files: dict[str, File] = {}
        for place in dict.fromkeys((*self._places, *(one.place for one in indexes))):
            files |= hash_files(self._out, place, self._taken)
        return {"places": self._places, "files": files, "note_vectors": self._note_vectors}

    def _made_with(self) -> dict[str, Any]:
        from shared.vectors.vector_files import LAYOUT

        return {"version": LAYOUT, "embedding": comparable(self._night.result("embed")["embedding"])}

    def _in_parts(self, place: str, builder: Builder, rows: Rows) -> Index:
        wanted = VectorRows(rows, rows.dimensions)
        plan = self._last.plan(place, self._made_with(), wanted, self._tonight)
        return Index("sqlite", place, builder, wanted.corpus(plan.held, plan.merged, plan.others), plan)

    def _note_parts(self, place: str, made_with: dict[str, Any], rows: PartRows, plan: Plan, written: int) -> None:
        """Record the parts of a place; LedgerMismatch unless they hold the rows of tonight's chats and of all others. `written`: the rows of the
        new part, if there is one."""
        new = [path.name for path in part_files(self._out / place) if path.name not in plan.taken]
        parts = plan.taken | {name: {"rows": written} for name in new}
        wanted = sum(map(rows.wanted, rows.tonight)) + self._carried[COUNTED_AS[place]]
        if (held := sum(part["rows"] for part in parts.values())) != wanted:
            raise LedgerMismatch(
                f"{self._out / place} has {held} rows, and {wanted} were made. Nothing was published; run the night again."
            )
        self._places[place] = {"made_with": made_with, "parts": parts}
        self._taken |= self._last.files(place, plan.taken)


def indexed(keywords: dict[str, int], rows: Rows | None, vectors: dict[str, int]) -> dict[str, dict[str, Any]]:
    """What each of tonight's chats has in the indexes: of several the least that one of them holds (each proof refuses another than was asked
    for)."""
    if rows is None:
        nothing = {"vectors": None, "not_embedded": 0, "repeated": 0}
        return {chat: {"keywords": count, **nothing} for chat, count in keywords.items()}
    return {
        chat: {
            "keywords": count,
            "vectors": vectors[chat] + rows.counts(chat).repeats,
            "repeated": rows.counts(chat).repeats,
            "not_embedded": rows.counts(chat).not_embedded,
        }
        for chat, count in keywords.items()
    }
