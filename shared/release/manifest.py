"""A release: one directory, written once, verified by hash, and named only when it is complete.

    HMEM_MEMORY_DIR/
      current -> releases/<run>     the one commit point
      releases/<run>/manifest.json  what the release is made of, and every other file with size and sha256
      releases/<run>/chats.sqlite             what it has of each chat, and its summary (chats.py)
      releases/<run>/lexical/<run>.sqlite     the texts and the keyword index, in parts, each named after the night that wrote it
      releases/<run>/imports.jsonl            what imports have brought, if there are any (imports.py)
      releases/<run>/notes/, note_vectors/    the same for notes of turns, where WRITES has notes
      releases/<run>/vectors/<run>.sqlite     or chroma/, lancedb/, qdrant.json, redis.json
      incoming/<run>.<attempt>/     where rsync writes
      verifying/<run>/              the verified copy (shared/delivery/takeover.py); renamed into releases/ once the release is accepted

A release is a function of (archive, tombstones, model, parameters): the manifest names all of these, so that two releases can be
compared without opening them. Files that two releases share are one file on the disk (shared/delivery/takeover.py).
`created_at` is for people; no release is ordered by it. A manifest of another format is refused, and so is
a modified one: like PostgreSQL's backup manifest it contains its own checksum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from shared.embedding.models import STRICT, Word
from shared.errors import ReleaseRefused
from shared.release.manifest_schema import (
    MOST_BYTES,
    Count,
    Embedding,
    File,
    Hash,
    IndexName,
    Ledger,
    Moment,
    Run,
    Zone,
)
from shared.system.files import sha256_bytes, sha256_file, write_atomic

#: Raise it when a release, or its manifest, is laid out in another way. A release of another format is not read: the night rebuilds it.
FORMAT_VERSION = 10
CHECKSUM = "checksum"
MANIFEST = "manifest.json"
LEXICAL = "lexical"
NOTES, NOTE_VECTORS = "notes", "note_vectors"
CHATS = "chats.sqlite"
IMPORTS = "imports.jsonl"
RELEASES = "releases"


#: Size and time of a file as it was compared, and the size and hash that it was compared with.
_Proven = tuple[int, int, int, str]
#: Files that this process has compared, by device and inode: releases share files, and each is compared once.
_proven: dict[tuple[int, int], _Proven] = {}


class OlderFormat(ReleaseRefused):
    """The manifest is intact, but of a format before this one: the next night builds a release without it."""


@dataclass(frozen=True)
class Manifest:
    """The description of a release. The types and bounds of its fields are those of one that is read."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    run: Run
    parent: Run | None
    segments: dict[str, Hash]  # archive segment name -> sha256:…
    chunker_version: Count
    summary_version: Count
    timezone: Zone  # of the dates in indexed text and summaries
    indexes: list[IndexName]
    embedding: Embedding
    chats: Count  # how many; what each of them has is in `chats.sqlite`
    turns: Count  # to recall
    chunks: Count
    forgotten: Count  # turns that a tombstone covers
    tombstones: dict[str, str]  # those applied: id -> chat
    ledger: Ledger = field(default_factory=dict)
    created_at: Moment = ""
    format_version: Annotated[int, Field(ge=1)] = FORMAT_VERSION
    files: dict[str, File] = field(default_factory=dict)  # path -> its size and hash
    summary_model: Word | None = None  # that wrote the summaries; none: extractive
    notes_model: Word | None = None  # that wrote all notes of the turns; none: no notes, or not all
    originals: dict[str, Hash] = field(default_factory=dict)  # segment with something erased -> what it was before
    erasing: list[str] = field(default_factory=list)  # the tombstones that leave no bytes

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(file["size"] for file in self.files.values())

    def to_json(self) -> bytes:
        record = vars(self) | {"embedding": self.embedding.to_json() if self.embedding else None}
        return _canonical(record | {CHECKSUM: sha256_bytes(_canonical(record))})


def _canonical(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def read_manifest(release: Path) -> Manifest:
    """The manifest of a release directory, or ReleaseRefused."""
    path = release / MANIFEST
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):  # a pipe would keep us waiting
            raise ReleaseRefused(f"The manifest {path} is not a regular file. {OTHER}")
        with path.open("rb") as handle:
            content = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise ReleaseRefused(f"The manifest {path} cannot be read ({error!r}). {OTHER}") from error
    return written_manifest(content, str(path))


def written_manifest(content: bytes, source: str) -> Manifest:
    """A manifest from the bytes of its file, which must be what this program writes; ReleaseRefused."""
    manifest = parse_manifest(content, source)
    if content != manifest.to_json():
        raise ReleaseRefused(f"The manifest {source} is damaged (it was modified). {OTHER}")
    return manifest


#: What an owner does about a damaged file of a release, and about a damaged manifest: no night may follow the release that it is of.
REPAIR = "Run the night (hmem-night run): it sends what is damaged anew."
OTHER = "If it is the current release's, serve another one (hmem release rollback RUN), then hmem release rollback --unpin. Then run the night."


def parse_manifest(content: bytes, source: str) -> Manifest:
    """A manifest from its bytes, or ReleaseRefused: every field has its type and bounds."""
    if len(content) > MOST_BYTES:
        raise ReleaseRefused(
            f"The manifest {source} is larger than {MOST_BYTES // 1_000_000} MB, so it was not read. {OTHER}"
        )
    try:
        record = orjson.loads(content)
        version, checksum = record["format_version"], record.pop(CHECKSUM)
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise ReleaseRefused(
                f"{source} has format {version}, this program reads {FORMAT_VERSION}. Update hcli-memory on this host."
            )
        body = _canonical(record)
        if checksum != sha256_bytes(body):
            raise ValueError("it does not match its checksum")
        if type(version) is int and 1 <= version < FORMAT_VERSION:
            raise OlderFormat(
                f"{source} has format {version}; this program reads {FORMAT_VERSION}. "
                "Run the night (hmem-night run): it rebuilds the release from the archive."
            )
        if missing := {one.name for one in fields(Manifest)} - record.keys():
            raise ReleaseRefused(f"The manifest {source} cannot be used: {min(missing)}: Field required. {OTHER}")
        return shape().validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = (
            first["loc"][0] if first["loc"] and first["loc"][0] in Manifest.__dataclass_fields__ else "an unknown field"
        )
        why = f"{name}: {first['msg'].removeprefix('Value error, ')}"
        raise ReleaseRefused(f"The manifest {source} cannot be used: {why}. {OTHER}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReleaseRefused(f"The manifest {source} is damaged ({error!r}). {OTHER}") from error


@cache
def shape() -> TypeAdapter[Manifest]:
    """What reads the fields of a manifest."""
    return TypeAdapter(Manifest)


def list_files(release: Path) -> list[str]:
    """Relative paths of all files but the manifest, sorted; a link or another special file is refused."""
    return _entries(release)[0]


def _entries(release: Path) -> tuple[list[str], list[str]]:
    """Relative paths of all files but the manifest, and of all directories; a link or another special file is refused."""
    if release.is_symlink():
        raise ReleaseRefused(f"{release} is a link, but a release must be a directory. Publish it again.")
    files: list[Path] = []
    directories: list[Path] = []
    for folder, folders, names in os.walk(release):
        for name in [*folders, *names]:
            path = Path(folder) / name
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ReleaseRefused(
                    f"{path} is not a regular file. A release contains only files and directories. Publish it again."
                )
        files += [Path(folder) / name for name in names]
        directories += [Path(folder) / name for name in folders]
    named, inside = (sorted(path.relative_to(release).as_posix() for path in paths) for paths in (files, directories))
    return [name for name in named if name != MANIFEST], inside


def file_record(path: Path) -> File:
    """Size and sha256 of a file."""
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


def seal(release: Path, manifest: Manifest, known: Mapping[str, File] | None = None) -> Manifest:
    """Write the manifest of a finished release directory: last of all files, naming all of them.

    `known`: size and sha256 of files that were hashed before; who receives the release hashes them again.
    """
    files = {name: (known or {}).get(name) or file_record(release / name) for name in list_files(release)}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    sealed = Manifest(**(vars(manifest) | {"files": files, "created_at": created}))
    write_atomic(release / MANIFEST, sealed.to_json())
    return sealed


def verify(release: Path) -> Manifest:
    """Re-hash every file of a release against its manifest; the first that differs is named in a ReleaseRefused."""
    manifest = read_manifest(release)
    if release.parent.name == RELEASES and release.name != str(manifest.run):
        raise ReleaseRefused(
            f"Release {release.name} has run {manifest.run} in its manifest: it was put there by hand. {REPAIR}"
        )
    files, directories = _entries(release)
    present = set(files)
    for name in sorted(present ^ set(manifest.files)):
        what = "is not in the manifest" if name in present else "is missing"
        raise ReleaseRefused(f"Release {release.name}: {name} {what}. {REPAIR}")
    needed = {parent.as_posix() for name in files for parent in Path(name).parents}
    if extra := [name for name in directories if name not in needed]:
        raise ReleaseRefused(f"Release {release.name}: {extra[0]}/ is not in the manifest. {REPAIR}")
    for name, expected in manifest.files.items():
        if file_record(release / name) != expected:
            raise ReleaseRefused(f"Release {release.name}: {name} was changed after it was built. {REPAIR}")
    return manifest


def prove_file(release: Path, manifest: Manifest, name: str) -> None:
    """Hash one file of a release, unless this process has done so; ReleaseRefused if it is missing or modified."""
    if name not in manifest.files:
        raise ReleaseRefused(f"Release {release.name}: {name} is not in the manifest. {REPAIR}")
    if not (release / name).is_file():  # a pipe would keep us waiting
        raise ReleaseRefused(f"Release {release.name}: {name} is missing. {REPAIR}")
    if not is_proven(release / name, manifest.files[name]):
        raise ReleaseRefused(f"Release {release.name}: {name} was changed after it was built. {REPAIR}")


def is_proven(path: Path, expected: File) -> bool:
    """Whether a file is, byte for byte, the expected one; OSError. A process hashes each once."""
    stat = path.stat()
    now = stat.st_size, stat.st_mtime_ns, expected["size"], expected["sha256"]
    if _proven.get((stat.st_dev, stat.st_ino)) != now:
        if file_record(path) != expected:
            return False
        _proven[stat.st_dev, stat.st_ino] = now
    return True


def prove_folder(release: Path, manifest: Manifest, folder: str) -> None:
    """The same of all files in a directory of a release, which must contain nothing else; ReleaseRefused."""
    named = {name for name in manifest.files if name.startswith(f"{folder}/")}
    present = {path.relative_to(release).as_posix() for path in (release / folder).rglob("*")}
    for name in sorted(named | present) or [folder]:
        prove_file(release, manifest, name)


def current_release(memory_dir: Path) -> Path | None:
    """Real path of the current release; None before the first. A dangling link is a ReleaseRefused."""
    link = memory_dir / "current"
    if not link.is_symlink():
        return None
    try:
        return link.resolve(strict=True)
    except PermissionError as error:
        raise ReleaseRefused(f"This user may not read {link}. Run dispatcher and night as the same user.") from error
    except OSError as error:
        raise ReleaseRefused(
            f"{link} points to {link.readlink()}, which does not exist. "
            "Point it at a release again: hmem release list, hmem release rollback RUN."
        ) from error


def current_manifest(memory_dir: Path) -> Manifest | None:
    """Manifest of the current release; None before the first, and if it has an older format: then there is none to continue. ReleaseRefused."""
    path = current_release(memory_dir)
    try:
        return read_manifest(path) if path else None
    except OlderFormat:
        return None


def no_release(memory_dir: Path) -> str:
    """Why there is no current release, and what to do: none was built yet, or the link is missing."""
    if any((memory_dir / RELEASES).glob("[0-9]*")):
        return f"{memory_dir / 'current'} is missing though there are releases. Point it at one: hmem release list, hmem release rollback RUN."
    return f"There is no release in {memory_dir} yet; the first night builds it. Run hmem-night run once, or set HMEM_MEMORY_DIR."


def release_dir(memory_dir: Path, run: int) -> Path:
    return memory_dir / RELEASES / str(run)
