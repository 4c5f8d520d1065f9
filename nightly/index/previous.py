"""The indexes of the newest published night, stored so that the next build reuses what is still valid and writes only what is new.

    HMEM_NIGHT_DIR/last/<run>/<place>/...    links to the files of that night's build, which never change
    HMEM_NIGHT_DIR/last/<run>/index.json     for each place: its build parameters, its files with size and sha256, its rows with digests

It may be deleted at any time. An index is reused only if its bytes have not changed since it was verified, it was built with the same parameters,
and every row in it is still needed with the same content. So forgotten turns are never carried over. An index in parts (`lexical/`, `vectors/`) is
reused part by part, as links to the same files; small parts are merged (shared/release/parts.py). Other indexes (Chroma, LanceDB) are reused
as a whole, and at most once: the index is moved into the build's folder first, so if the build crashes, the next one starts from nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from nightly.night.folder import Night
from shared.errors import HmemError, ReleaseRefused
from shared.release.manifest import list_files
from shared.release.parts import Earlier, absorbed
from shared.system.files import commit_dir, fresh_dir, make_dir, remove_tree, sha256_bytes, sha256_file, write_atomic

LAST = "last"
INDEX = "index.json"
FORMAT = 2
#: Above this share of new rows an index is rebuilt: reusing gains little then, and a new index has no leftovers.
MOST_NEW = 0.5

Files = Mapping[str, Mapping[str, Any]]
#: Chat id -> chunk id -> digest of what the index holds of it.
Digests = Mapping[str, Mapping[str, str]]
#: The chunk ids in a part, by chat, in the order of its rows.
IdsByChat = Mapping[str, Sequence[str]]
IdsOf = Callable[[Path], IdsByChat]


def hash_files(path: Path, known: Files | None = None) -> dict[str, dict[str, Any]]:
    """Each file below a directory with size and sha256, as a manifest names them; of an index that is one file, that one by its name.

    `known`: files that were hashed a moment ago.
    """
    folder, names = (path.parent, [path.name]) if path.is_file() else (path, list_files(path))
    return {name: dict((known or {}).get(name) or _hashed(folder / name)) for name in names}


def _hashed(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


def digest_of(files: Files) -> str:
    """One hash of all these files."""
    return sha256_bytes(_json({name: [file["size"], file["sha256"]] for name, file in files.items()}))


def part_record(ids: IdsByChat, wanted: Digests) -> dict[str, Any] | None:
    """The number of rows in a part, and one digest of their current content, in the part's order; None if one is no longer needed."""
    try:
        rows = [[chat_id, len(some), *map(wanted[chat_id].__getitem__, some)] for chat_id, some in ids.items()]
    except KeyError:
        return None
    return {"rows": sum(map(len, ids.values())), "digest": sha256_bytes(_json(rows))}


def keep(night: Night) -> None:
    """Keep the indexes of this night, whose release is published, instead of the earlier ones. Repeating it changes nothing.

    A disk error here only makes the next night some minutes longer.
    """
    built = night.result("build")
    if "skipped" in built:
        return
    base = night.settings.hmem_night_dir / LAST
    try:
        _keep(night, base, built["places"])
    except (OSError, HmemError) as error:
        night.report.say(f"  The indexes could not be stored for the next night, which will rebuild them: {error}")


def _keep(night: Night, base: Path, places: dict[str, dict[str, Any]]) -> None:
    kept = base / str(night.run)
    if not kept.is_dir():
        temporary = fresh_dir(base / f"{night.run}.tmp")
        records = {}
        for place, record in places.items():
            source = night.output("build") / place
            files = hash_files(source)
            if digest_of(files) != night.result("build")["proven"][place]:
                night.report.say(f"  {place}/ was changed after it was verified; it is not stored for the next night.")
                continue
            shutil.copytree(source, temporary / place, copy_function=os.link)
            records[place] = record | {"files": files}
        body = _json({"format": FORMAT, "places": records})
        write_atomic(temporary / INDEX, sha256_bytes(body).encode() + b"\n" + body)
        commit_dir(temporary, kept)
    for other in list(base.iterdir()):
        if other != kept:
            remove_tree(other)


class Last:
    """What this night may reuse."""

    def __init__(self, night: Night) -> None:
        self._report = night.report
        self._kept: Path | None = None
        #: Place -> part -> its record, and its file with size and sha256, of the parts that were taken over.
        self.taken_parts: dict[str, dict[str, Any]] = {}
        self.taken_files: dict[str, Files] = {}
        self._places: dict[str, dict[str, Any]] = {}
        base = night.settings.hmem_night_dir / LAST
        if night.rebuild:  # the owner asked for a full rebuild
            return
        try:
            runs = [int(path.name) for path in base.iterdir() if path.name.isdigit()] if base.is_dir() else []
            if runs:
                self._kept = base / str(max(runs))
                self._places = _read(self._kept)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._say("the last indexes", f"they cannot be read ({error!r})")

    def parts(self, place: str, made_with: Mapping[str, Any], wanted: Digests, ids_of: IdsOf) -> Earlier | None:
        """The parts of an index that are reused unchanged, and the ids in them; None if there are none."""
        record = self._record(place, made_with)
        if record is None or self._kept is None:
            return None
        found: dict[str, IdsByChat] = {}
        for name, part in record["parts"].items():
            file = self._kept / place / name
            if not _is_as_it_was(file, record["files"].get(name)):
                self._say(f"{place}/{name}", "it was changed, or cannot be read")
                continue
            ids = ids_of(file)
            if part_record(ids, wanted) == part:
                found[name] = ids
            else:
                self._say(f"{place}/{name}", "some of its content was forgotten or has changed")
        rows = {name: int(record["parts"][name]["rows"]) for name in found}
        new = sum(map(len, wanted.values())) - sum(rows.values())
        taken = sorted(found.keys() - absorbed(rows, new))
        held: dict[str, set[str]] = {}
        for name in taken:
            for chat_id, some in found[name].items():
                held.setdefault(chat_id, set()).update(some)
        self.taken_parts[place] = {name: record["parts"][name] for name in taken}
        self.taken_files[place] = {name: record["files"][name] for name in taken}
        return Earlier(self._kept / place, held, tuple(taken)) if taken else None

    def whole(self, place: str, made_with: Mapping[str, Any], wanted: Digests, into: Path) -> Earlier | None:
        """The index, moved to `into`, if all of it is still needed; None: build from nothing."""
        record = self._record(place, made_with)
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

    def _record(self, place: str, made_with: Mapping[str, Any]) -> dict[str, Any] | None:
        record = self._places.get(place)
        if record is None:
            return None
        for name, value in made_with.items():
            if record["made_with"].get(name) != value:
                self._say(f"{place}/", f"it was made with another {name}")
                return None
        return record

    def _say(self, what: str, why: str) -> None:
        self._report.say(f"  {what} is built from nothing instead of reusing the last night's: {why}.")


def _is_as_it_was(path: Path, file: Mapping[str, Any] | None) -> bool:
    try:
        return file is not None and path.stat().st_size == file["size"] and sha256_file(path) == file["sha256"]
    except OSError:
        return False


def _holds(folder: Path, files: Files) -> bool:
    """Whether the folder has exactly these files, unchanged."""
    try:
        return hash_files(folder) == files
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


def _read(kept: Path) -> dict[str, dict[str, Any]]:
    checksum, _, body = (kept / INDEX).read_bytes().partition(b"\n")
    if checksum.decode() != sha256_bytes(body):
        raise ValueError("their record does not match its checksum")
    record = orjson.loads(body)
    if record["format"] != FORMAT:
        raise ValueError(f"their record has format {record['format']}, this program reads {FORMAT}")
    places: dict[str, dict[str, Any]] = record["places"]
    return places


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
