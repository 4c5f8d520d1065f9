"""What the newest published night has left for the next: its indexes, its summaries (in `chats/`), and what it knew of each chat, so that a night
does again only the chats that have news.

    HMEM_NIGHT_DIR/last/<run>/<place>/...    links to the files of that night's build, which never change
    HMEM_NIGHT_DIR/last/<run>/chats.sqlite   each chat: what it was made from, its counts (nightly/index/kept_chats.py)
    HMEM_NIGHT_DIR/last/<run>/index.json     what all of it follows from; the sums over the chats; for each place its build parameters, its
                                             parts and its files with size, time and sha256

It may be deleted at any time. A file is used only if it is as it was when it was verified: a file of the same size and time counts as that, and is
hashed again within a week, before its rows are written to another file, and after a night that met damage; any other is hashed. An index in
parts (`lexical/`, `vectors/`) is reused part by part, as links to the same files, unless a row in it is no longer wanted; so forgotten turns are
never carried over. Small parts are merged (shared/release/parts.py). Other indexes (Chroma, LanceDB) are reused as a whole, and at most once: the
index is moved into the build's folder first, so if the build crashes, the next one starts from nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.index.kept_chats import CHATS, Account, ChatAccounts, Sums, sums_of
from nightly.index.part_rows import Held, PartRows, other_chats
from nightly.night.folder import Night
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import CHATS as CHATS_PLACE
from shared.release.manifest import list_files
from shared.release.parts import Earlier, absorbed, part_files
from shared.system.files import make_dir, remove_tree, sha256_bytes, sha256_file

LAST = "last"
INDEX = "index.json"
#: Beside it after a night that met damage: nothing is taken to be as it was by its size and time.
DISTRUSTED = "distrusted"
FORMAT = 4
#: Above this share of new rows an index is rebuilt: reusing gains little then, and a new index has no leftovers.
MOST_NEW = 0.5
_DAY_SECONDS = 86_400.0

Files = Mapping[str, Mapping[str, Any]]
#: Chat id -> chunk id -> digest of what the index holds of it.
Digests = Mapping[str, Mapping[str, str]]


def hash_files(path: Path, known: Files | None = None) -> dict[str, dict[str, Any]]:
    """Each file below a directory with size and sha256, as a manifest names them; of an index that is one file, that one by its name.

    `known`: files that were hashed before, and are as they were.
    """
    folder, names = (path.parent, [path.name]) if path.is_file() else (path, list_files(path))
    return {name: _named((known or {}).get(name) or _hashed(folder / name)) for name in names}


def _hashed(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


def _named(file: Mapping[str, Any]) -> dict[str, Any]:
    """As a manifest has it."""
    return {"size": file["size"], "sha256": file["sha256"]}


def digest_of(files: Files) -> str:
    """One hash of all these files."""
    return sha256_bytes(_json({name: [file["size"], file["sha256"]] for name, file in files.items()}))


@dataclass(frozen=True)
class Plan:
    """What becomes of the parts of a place."""

    taken: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> its record
    earlier: Earlier | None = None
    held: Held = field(default_factory=Held)
    merged: list[Path] = field(default_factory=list)  # parts whose rows of other chats are written again
    others: list[str] = field(default_factory=list)  # those chats


class Last:
    """What this night may reuse. `recipe`: what it follows from beside the archive; None if there is nothing to reuse."""

    def __init__(self, night: Night) -> None:
        self._report, self._tonight = night.report, night
        self._kept: Path | None = None
        #: Place -> part -> its file with size and sha256, of the parts that were taken over.
        self.taken_files: dict[str, Files] = {}
        self._record: dict[str, Any] = {"places": {}}
        self._sound: dict[str, bool] = {}
        self._scrub_days = night.scrub_days
        self.recipe: dict[str, Any] | None = None
        self.chats = ChatAccounts(None)
        base = night.settings.hmem_night_dir / LAST
        if night.rebuild:  # the owner asked for a full rebuild
            return
        try:
            runs = [int(path.name) for path in base.iterdir() if path.name.isdigit()] if base.is_dir() else []
            if runs:
                self._kept = base / str(max(runs))
                self._record = _read_record(self._kept)
                if (self._kept / DISTRUSTED).exists():
                    self._scrub_days = 0.0
                self._open_chats()
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._kept, self._record = None, {"places": {}}
            self._say("the last indexes", f"they cannot be read ({error!r})")

    def _open_chats(self) -> None:
        """What was known of the chats, if it is as it was."""
        if self._kept is None or self._record.get("recipe") is None:
            return
        path = self._kept / CHATS
        if not path.is_file() or sha256_file(path) != self._record["chats"]:
            self._report.say(
                "  What the last night knew of each chat was changed or is missing. Tonight does all chats."
            )
            return
        self.recipe, self.chats = self._record["recipe"], ChatAccounts(path)

    @property
    def token(self) -> str:
        """Changes when anything that a night by news starts from does."""
        sound = {f"{place}/{name}": self._is_sound(place, name) for place, name in self._all_parts()}
        return sha256_bytes(_json([self.run, self.recipe, self._record.get("chats"), sound]))

    def broken_chats(self, counts: Mapping[str, Callable[[Path], Mapping[str, int]]]) -> set[str]:
        """The chats that parts which are not as they were may have had rows of, as the counts of the others show."""
        found = set[str]()
        for place, count in counts.items():
            if self._kept is not None and not self._all_sound(place):
                counted = Counter[str]()
                for path in self.sound_parts(place):
                    counted.update(count(path))
                found |= {chat for chat, _, one in self.chats.all() if counted[chat] != one["rows"].get(place, 0)}
        if not self._all_sound(CHATS_PLACE):
            found |= self.chats.digests().keys()  # an older row of a chat may look like the one that is lost
        return found

    def sums(self) -> Sums:
        """Over all chats that were kept."""
        sums: Sums = self._record["sums"] if self.recipe is not None else sums_of([])
        return sums

    def made_with(self, place: str) -> dict[str, Any]:
        """What a place was built with; empty if there is none."""
        record: dict[str, Any] = self._record["places"].get(place, {})
        return dict(record.get("made_with", {}))

    def parts(self, place: str) -> dict[str, dict[str, Any]]:
        """The sound parts of a place with their records, from the oldest to the newest."""
        record = self._record["places"].get(place, {"parts": {}})
        return {path.name: record["parts"][path.name] for path in self.sound_parts(place)}

    def sound_parts(self, place: str) -> list[Path]:
        """Those that are as they were, from the oldest to the newest."""
        names = {name for one, name in self._all_parts() if one == place and self._is_sound(place, name)}
        return [path for path in part_files(self._kept / place) if path.name in names] if self._kept else []

    def prove(self, place: str, names: Iterable[str]) -> None:
        """StorageError unless parts whose rows are written again are what they were, byte by byte: a new part must not take over damage."""
        for name in names:
            file = self._record["places"][place]["files"].get(name)
            if self._kept is None or not _is_as_it_was(self._kept / place / name, file, 0.0):
                raise StorageError(
                    f"{place}/{name}, which the last night left, is damaged. Run the night again: it makes what was in it anew."
                )

    def forgotten_since(self, tombstones: Mapping[str, str]) -> set[str]:
        """The chats of those tombstones (id -> chat) that the last night did not know."""
        known = frozenset(self._record.get("tombstones", ()))
        return {chat_id for tombstone_id, chat_id in tombstones.items() if tombstone_id not in known}

    def take(self, place: str, names: Iterable[str]) -> None:
        """Note that these parts are taken over."""
        files = self._record["places"][place]["files"] if place in self._record["places"] else {}
        self.taken_files[place] = {name: files[name] for name in names}

    def _all_sound(self, place: str) -> bool:
        return all(self._is_sound(place, name) for one, name in self._all_parts() if one == place)

    @property
    def run(self) -> str | None:
        """The night that left it."""
        return self._kept.name if self._kept else None

    def plan(self, place: str, made_with: Mapping[str, Any], rows: PartRows, tonight: Collection[str] | None) -> Plan:
        """Which parts of an index are taken over. `tonight`: the chats that are done again, None for all."""
        record = self._record_of(place, made_with)
        if record is None or self._kept is None:
            return Plan()
        found: dict[str, dict[str, int]] = {}
        gone = list[Path]()
        for name in record["parts"]:
            part = self._kept / place / name
            if not self._is_sound(place, name):
                self._say(f"{place}/{name}", "it was changed, or cannot be read")
            elif (held := _held(part, rows, tonight)) is not None:
                found[name] = held
            else:
                gone.append(part)
                self._say(f"{place}/{name}", "some of its content was forgotten or has changed")
        counts = {name: int(record["parts"][name]["rows"]) for name in found}
        known = sum(sum(held.values()) for held in found.values())
        if tonight is not None:
            self.prove(place, [part.name for part in gone])
        others = {part: other_chats(part, tonight) for part in gone}
        new = sum(map(rows.wanted, rows.tonight)) - known
        for part, chats in others.items():
            counted = rows.count(part) if chats else {}
            new += sum(counted[chat] for chat in chats)
        merged = [self._kept / place / name for name in sorted(absorbed(counts, new))]
        if tonight is not None:
            self.prove(place, [part.name for part in merged])
        others |= {part: other_chats(part, tonight) for part in merged}
        taken = sorted(found.keys() - {part.name for part in merged})
        self.take(place, taken)
        return Plan(
            {name: record["parts"][name] for name in taken},
            Earlier(self._kept / place, {}, tuple(taken), rest_only=True) if taken else None,
            Held(rows, {self._kept / place / name: found[name].keys() for name in taken}),
            [*gone, *merged],
            sorted({chat for chats in others.values() for chat in chats}),
        )

    def whole(self, place: str, made_with: Mapping[str, Any], wanted: Digests, into: Path) -> Earlier | None:
        """The index, moved to `into`, if all of it is still needed; None: build from nothing."""
        record = self._record_of(place, made_with)
        if record is None or self._kept is None or not (self._kept / place).is_dir():
            return None
        make_dir(into.parent)
        (self._kept / place).rename(into)
        why = _why_not(record["rows"], wanted)
        if why is None and not _holds(into, record["files"]):
            why = "its files were changed, or cannot be read"
        if why:
            remove_tree(into)
            self._say(f"{place}/", why)
            return None
        return Earlier(into, {chat_id: set(ids) for chat_id, ids in record["rows"].items()})

    def _all_parts(self) -> Iterator[tuple[str, str]]:
        return ((place, name) for place, record in self._record["places"].items() for name in record.get("parts", ()))

    def _is_sound(self, place: str, name: str) -> bool:
        """Asked of the disk once."""
        key = f"{place}/{name}"
        if key not in self._sound and self._kept is not None:
            file = self._record["places"][place]["files"].get(name)
            self._sound[key] = _is_as_it_was(self._kept / key, file, self._scrub_days)
        return self._sound.get(key, False)

    def _record_of(self, place: str, made_with: Mapping[str, Any]) -> dict[str, Any] | None:
        record: dict[str, Any] | None = self._record["places"].get(place)
        if record is None:
            return None
        for name, value in made_with.items():
            if record["made_with"].get(name) != value:
                self._say(f"{place}/", f"it was made with another {name}")
                return None
        return record

    def _say(self, what: str, why: str) -> None:
        self._report.say(f"  {what} is built from nothing instead of reusing the last night's: {why}.")


def refuse_another_start(night: Night, last: Last) -> None:
    """StorageError if what the last night left is not what the chats with news were chosen by."""
    made = night.result("chunk")
    if not made["everything"] and last.token != made["last_token"]:
        raise StorageError(
            f"What the last night left in {LAST}/ was changed while this night ran. Run the night again: it begins with what is left."
        )


def distrust(night_dir: Path) -> None:
    """After damage: the next night hashes all that the last one left before it uses any of it."""
    for kept in (night_dir / LAST).glob("[0-9]*"):
        with suppress(OSError):
            (kept / DISTRUSTED).touch()


def kept_accounts(night_dir: Path) -> Iterator[tuple[str, str, Account]]:
    """(chat, digest, counts) as the last night left them, for who compares them; nothing if they are not as they were."""
    runs = [path for path in (night_dir / LAST).glob("[0-9]*") if path.name.isdigit()]
    if not runs:
        return
    kept = max(runs, key=lambda path: int(path.name))
    try:
        if _read_record(kept).get("chats") == sha256_file(kept / CHATS):
            yield from ChatAccounts(kept / CHATS).all()
    except (OSError, ValueError, KeyError, TypeError):
        return  # the next night says so, and does every chat


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


def _is_as_it_was(path: Path, file: dict[str, Any] | None, scrub_days: float) -> bool:
    """By size and time, or by its hash: where the time is another one, and once in `scrub_days`."""
    try:
        stat = path.stat()
        if file is None or stat.st_size != file["size"] or not path.is_file():
            return False
        age = (time.time() - file.get("read_at", 0.0)) / _DAY_SECONDS
        if stat.st_mtime_ns == file.get("modified") and 0 <= age < scrub_days:
            return True
        same = bool(sha256_file(path) == file["sha256"])
    except OSError:
        return False
    if same:
        file["read_at"] = time.time()
    return same


def _holds(folder: Path, files: Files) -> bool:
    """Whether the folder has exactly these files, unchanged."""
    try:
        return hash_files(folder) == {name: _named(file) for name, file in files.items()}
    except (OSError, ReleaseRefused):
        return False


def _why_not(held: Digests, wanted: Digests) -> str | None:
    """Why an index with these rows cannot be extended, or None."""
    for chat_id, ids in held.items():
        now = wanted.get(chat_id, {})
        if any(now.get(chunk_id) != digest for chunk_id, digest in ids.items()):
            return "some of its content was forgotten or has changed"
    total = sum(map(len, wanted.values()))
    new = total - sum(map(len, held.values()))
    return f"{new} of {total} vectors are new" if new > MOST_NEW * total else None


def _read_record(kept: Path) -> dict[str, Any]:
    checksum, _, body = (kept / INDEX).read_bytes().partition(b"\n")
    if checksum.decode() != sha256_bytes(body):
        raise ValueError("their record does not match its checksum")
    record: dict[str, Any] = orjson.loads(body)
    if record["format"] != FORMAT:
        raise ValueError(f"their record has format {record['format']}, this program reads {FORMAT}")
    return record


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
