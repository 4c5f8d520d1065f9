"""What the newest published night has left for the next: its indexes, its summaries (in `chats.sqlite`), and what it knew of each chat, so that a
night does again only the chats that have news.

    HMEM_NIGHT_DIR/last/<run>/<place>/...    links to the files of that night's build, which never change
    HMEM_NIGHT_DIR/last/<run>/index.json     what all of it follows from; for each place its build parameters and its parts; each file with size and
                                             sha256

It may be deleted at any time, and is used only if all of it is as it was when it was verified: each night hashes it once. An index in parts
(`lexical/`, `vectors/`) is reused part by part, as links to the same files, unless a row in it is no longer wanted; so forgotten turns are
never carried over. Small parts are merged (shared/release/parts.py). Other indexes (Chroma, LanceDB, those on servers) are written anew each night.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.index.part_rows import Held, PartRows, other_chats
from nightly.index.recipe import comparable
from nightly.night.folder import Night
from shared.errors import HmemError, StorageError
from shared.release.chats import COUNTED, ChatTable, version
from shared.release.integrity import damage_named
from shared.release.manifest import CHATS, file_record, is_proven, list_files
from shared.release.manifest_schema import File
from shared.release.parts import Earlier, absorbed
from shared.system.faults import crash_point
from shared.system.files import commit_dir, fresh_dir, make_dir, remove_tree, sha256_bytes, write_atomic

LAST = "last"
INDEX = "index.json"
FORMAT = 8

Files = Mapping[str, File]
#: What is counted over chats.
Sums = dict[str, int]


def hash_files(folder: Path, place: str, known: Files | None = None) -> dict[str, File]:
    """The files of a place, which is a directory or a file, with size and sha256, named as in a manifest. `known`: the unchanged ones."""
    names = [place] if (folder / place).is_file() else [f"{place}/{name}" for name in list_files(folder / place)]
    return {name: (known or {}).get(name) or file_record(folder / name) for name in names}


@dataclass(frozen=True)
class Plan:
    """What becomes of the parts of a place."""

    taken: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> its record
    earlier: Earlier | None = None
    held: Held = field(default_factory=Held)
    merged: list[Path] = field(default_factory=list)  # parts whose rows of other chats are written again
    others: list[str] = field(default_factory=list)  # those chats


class Last:
    """What this night may reuse. `path`: where it is, `recipe`: what it follows from beside the archive; both None if there is nothing to reuse."""

    def __init__(self, night: Night) -> None:
        self._report = night.report
        self.path: Path | None = None
        self._record: dict[str, Any] = {"places": {}, "files": {}, "tombstones": ()}
        self.recipe: dict[str, Any] | None = None
        #: Changes when anything that a night by news starts from does.
        self.token: str | None = None
        base = night.settings.hmem_night_dir / LAST
        runs = [int(path.name) for path in base.iterdir() if path.name.isdigit()] if base.is_dir() else []
        if not runs or night.rebuild:  # the owner asked for a full rebuild
            return
        kept = base / str(max(runs))
        try:
            record, self.token = _read_record(kept)
            _refuse_damage(kept, record)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.token = None
            self._say("all", f"what the last night left cannot be used ({error})")
            return
        self.path, self._record, self.recipe = kept, record, record["recipe"]

    def digests(self) -> dict[str, str]:
        """Chat id → digest of what it was made from; "" for one of which something waits for a better answer."""
        with self.chats() as table:
            return {row.chat_id: row.made_from for row in table.rows()}

    def sums(self, without: Iterable[str]) -> Sums:
        """Over all chats but these: how many have turns, and what is counted of each."""
        sums, left_out = dict.fromkeys(("chats", *COUNTED), 0), frozenset(without)
        with self.chats() as table:
            for row in table.rows():
                if row.chat_id not in left_out:
                    sums["chats"] += bool(row.counts["turns"])
                    for name in COUNTED:
                        sums[name] += row.counts[name] or 0
        return sums

    @contextmanager
    def chats(self) -> Iterator[ChatTable]:
        """What it had of each chat; nothing if that is laid out in another way."""
        path = self.path / CHATS if self.path and self.recipe and self.recipe.get("chats") == version() else None
        with damage_named(path or Path(CHATS)), ChatTable(path) as table:
            yield table

    def files(self, place: str, names: Iterable[str]) -> dict[str, File]:
        """These files of a place, as they were proven."""
        files: Files = self._record["files"]
        return {known: files[known] for name in names if (known := f"{place}/{name}") in files}

    def forgotten_since(self, tombstones: Mapping[str, str]) -> set[str]:
        """The chats of those tombstones (id -> chat) that the last night did not know."""
        known = frozenset(self._record["tombstones"])
        return {chat_id for tombstone_id, chat_id in tombstones.items() if tombstone_id not in known}

    def plan(self, place: str, made_with: Mapping[str, Any], rows: PartRows, tonight: Collection[str] | None) -> Plan:
        """Which parts of an index are taken over. `tonight`: the chats that are done again, None for all."""
        record: dict[str, Any] | None = self._record["places"].get(place)
        if record is None or self.path is None:
            return Plan()
        if other := [name for name, value in made_with.items() if record["made_with"].get(name) != value]:
            self._say(f"{place}/", f"it was made with another {other[0]}")
            return Plan()
        folder, found = self.path / place, dict[str, dict[str, int]]()
        for name in record["parts"]:
            if (held := _held(folder / name, rows, tonight)) is not None:
                found[name] = held
            else:
                self._say(f"{place}/{name}", "some of it was forgotten or has changed, or older turns came in between")
        gone = [name for name in record["parts"] if name not in found]
        new = sum(map(rows.wanted, rows.tonight)) - sum(sum(held.values()) for held in found.values())
        others = set[str]()
        for name in gone:
            if chats := other_chats(folder / name, tonight):
                new += int(record["parts"][name]["rows"])  # at most: tonight's chats in it are counted already
                others.update(chats)
        merged = sorted(absorbed({name: int(record["parts"][name]["rows"]) for name in found}, new))
        others.update(chat for name in merged for chat in other_chats(folder / name, tonight))
        taken = sorted(found.keys() - merged)
        return Plan(
            {name: record["parts"][name] for name in taken},
            Earlier(folder, tuple(taken)) if taken else None,
            Held(rows, {folder / name: found[name].keys() for name in taken}),
            [folder / name for name in (*gone, *merged)],
            sorted(others),
        )

    def _say(self, what: str, why: str) -> None:
        self._report.say(f"  {what} is built from nothing instead of reusing the last night's: {why}.")


def refuse_another_start(night: Night, last: Last) -> None:
    """StorageError if what the last night left is not what the chats with news were chosen by."""
    made = night.result("chunk")
    if not made["everything"] and last.token != made["last_token"]:
        raise StorageError(
            f"What the last night left in {LAST}/ was changed while this night ran. Run the night again: it begins with what is left."
        )


def _held(part: Path, rows: PartRows, tonight: Collection[str] | None) -> dict[str, int] | None:
    """The number of rows of each of tonight's chats in a part; None if one of them is not wanted any more, or has changed."""
    found: dict[str, int] = {}
    for chat_id in other_chats(part, ()) if tonight is None else tonight:
        ids = rows.held(part, chat_id)
        if ids is None:
            return None
        if ids:
            found[chat_id] = len(ids)
    return found


def _refuse_damage(kept: Path, record: Mapping[str, Any]) -> None:
    """ValueError or OSError unless all files are as they were, byte by byte."""
    for name, file in record["files"].items():
        if not is_proven(kept / name, file):
            raise ValueError(f"{name} was changed")


def _read_record(kept: Path) -> tuple[dict[str, Any], str]:
    """The record, and its checksum."""
    checksum, _, body = (kept / INDEX).read_bytes().partition(b"\n")
    if checksum.decode() != sha256_bytes(body):
        raise ValueError("the record does not match its checksum")
    record: dict[str, Any] = orjson.loads(body)
    if record["format"] != FORMAT:
        raise ValueError(f"the record has format {record['format']}, this program reads {FORMAT}")
    return record, checksum.decode()


# ── Keeping what a published night has made, for the next one.


def keep(night: Night) -> None:
    """Keep the indexes and summaries of this night, whose release is published, instead of the earlier ones. Repeating it changes nothing.

    A disk error here only makes the next night some minutes longer.
    """
    if "skipped" in night.result("build"):
        return
    try:
        _keep(night, night.settings.hmem_night_dir / LAST)
    except (OSError, HmemError) as error:
        night.report.say(f"  The indexes could not be stored for the next night, which will rebuild them: {error}")


def _keep(night: Night, base: Path) -> None:
    kept, temporary = base / str(night.run), base / f"{night.run}.tmp"
    if not kept.is_dir():
        fresh_dir(temporary)
        chunk, places, files = night.result("chunk"), dict[str, Any](), dict[str, Any]()
        for step in ("build", "summarise"):
            made = night.result(step)
            places |= made["places"]
            for name in (one for one in made["files"] if one.partition("/")[0] in made["places"]):
                os.link(night.output(step) / name, make_dir((temporary / name).parent) / Path(name).name)
                files[name] = made["files"][name]
        about = {
            "format": FORMAT,
            "places": places,
            "files": files,
            "tombstones": list(chunk.get("tombstones", ())),
            "recipe": chunk["recipe"] | {"embedding": comparable(night.result("embed")["embedding"])},
        }
        body = orjson.dumps(about, option=orjson.OPT_SORT_KEYS)
        write_atomic(temporary / INDEX, sha256_bytes(body).encode() + b"\n" + body)
        crash_point("publish:kept-written")
        commit_dir(temporary, kept)
    for other in list(base.iterdir()):
        if other != kept:
            remove_tree(other)
