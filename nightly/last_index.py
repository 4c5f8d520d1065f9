"""The Chroma index of the newest published night, kept so that the next build adds to a copy of it: writing an index is slow, copying is not.

    HMEM_NIGHT_DIR/last/<run>/chroma/       links to the files of that night's build; nobody writes to those again
    HMEM_NIGHT_DIR/last/<run>/index.json    what it was built with, each file with size and sha256, each row with a digest of its vector

It may be deleted at any time. It is taken at most once: if a build dies of it, the next one starts from nothing. It is not used, and
removed, unless every byte is as it was when the index was proven, its vectors are of the same model and version of Chroma, and every row
is still wanted with the same vector. So what was forgotten is not carried on: Chroma's files keep what was deleted from them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from nightly.index_rows import Rows, read_rows
from nightly.night import Night
from shared.errors import HmemError
from shared.files import commit_dir, fresh_dir, fsync_dir, remove_tree, sha256_bytes, sha256_file, write_atomic
from shared.integrity import private_copy
from shared.release import CHROMA, list_files

LAST = "last"
INDEX = "index.json"
FORMAT = 1
#: Above this share of new rows an index is built anew: the gain has become small, and a new one carries nothing along.
MOST_NEW = 0.5

Files = Mapping[str, Mapping[str, Any]]


def hash_files(path: Path) -> dict[str, dict[str, Any]]:
    """Each file below a directory with size and sha256, as a manifest names them; of an index that is one file, that one by its name."""
    folder, names = (path.parent, [path.name]) if path.is_file() else (path, list_files(path))
    return {name: {"size": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in names}


def digest_of(files: Files) -> str:
    """One hash that stands for all of these files."""
    return sha256_bytes(_json({name: [file["size"], file["sha256"]] for name, file in files.items()}))


def keep(night: Night) -> None:
    """Keep the index of this night, whose release is published, in place of the one before. Asked again, it changes nothing.

    A disk that fails here costs the next night some minutes and this one nothing.
    """
    built = night.result("build")
    if "skipped" in built:
        return
    base = night.settings.hmem_night_dir / LAST
    try:
        if CHROMA in built["indexes"]:
            _keep(night, base, built)
        else:  # an index that is not built any more is not kept either
            remove_tree(base)
    except (OSError, HmemError) as error:
        night.report.say(f"  The index could not be kept for the next night, which builds its own: {error}")


def _keep(night: Night, base: Path, built: dict[str, Any]) -> None:
    kept, source = base / str(night.run), night.output("build") / CHROMA
    files = hash_files(source)
    if digest_of(files) != built["proven"][CHROMA]:
        night.report.say("  The index was changed after it had been proven; it is not kept for the next night.")
        remove_tree(base)
        return
    if not kept.is_dir():
        temporary = fresh_dir(base / f"{night.run}.tmp")
        shutil.copytree(source, temporary / CHROMA, copy_function=os.link)
        record = {"made_with": made_with(night), "files": files, "rows": read_rows(night).digests}
        body = _json(record)
        write_atomic(temporary / INDEX, sha256_bytes(body).encode() + b"\n" + body)
        commit_dir(temporary, kept)
    for other in list(base.iterdir()):
        if other != kept:
            remove_tree(other)


def made_with(night: Night) -> dict[str, Any]:
    """What must be the same for an index to be added to; probes are evidence of the model, not part of it."""
    from shared.backends import chroma

    embedding = {name: value for name, value in night.result("embed")["embedding"].items() if name != "probes"}
    return {"format": FORMAT, "chroma": chroma.version(), "embedding": embedding}


def take(night: Night, rows: Rows, into: Path) -> dict[str, set[str]]:
    """Copy the kept index to `into`, if all of it is wanted; the chunk ids it holds by chat. Empty: build from nothing."""
    base = night.settings.hmem_night_dir / LAST
    if not base.is_dir():
        return {}
    held: dict[str, dict[str, str]] = {}
    try:
        kept = base / max((path.name for path in base.iterdir() if path.name.isdigit()), key=int)
        record = _read(kept)
        held, why = record["rows"], _why_not(record, made_with(night), rows)
        if why is None:
            private_copy(kept / CHROMA, into)
            why = None if hash_files(into) == record["files"] else "its files were changed"
    except (OSError, HmemError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it cannot be read ({error!r})"
    remove_tree(base)
    fsync_dir(base.parent)
    if why is None:
        return {chat_id: set(ids) for chat_id, ids in held.items()}
    remove_tree(into)
    night.report.say(f"  The index is built from nothing, not added to the last one: {why}.")
    return {}


def _why_not(record: dict[str, Any], wanted: dict[str, Any], rows: Rows) -> str | None:
    """Why an index of this record is not to be added to, or None."""
    for name, value in wanted.items():
        if record["made_with"][name] != value:
            return f"it was made with another {name}"
    held = 0
    for chat_id, ids in record["rows"].items():
        held += len(ids)
        now = rows.digests.get(chat_id, {})
        if any(now.get(chunk_id) != digest for chunk_id, digest in ids.items()):
            return "something that it holds was forgotten or has changed"
    new = len(rows) - held
    return f"{new} of {len(rows)} vectors are new" if new > MOST_NEW * len(rows) else None


def _read(kept: Path) -> dict[str, Any]:
    checksum, _, body = (kept / INDEX).read_bytes().partition(b"\n")
    if checksum.decode() != sha256_bytes(body):
        raise ValueError("its record does not fit its own checksum")
    record: dict[str, Any] = orjson.loads(body)
    return record


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
