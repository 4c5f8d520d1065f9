"""A release that was brought: changed, sealed again and received."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from shared.delivery.receiver import Receiver
from shared.release.manifest import CHECKSUM
from shared.system.files import sha256_bytes, sha256_file
from tests.support.world import World

PART = "lexical/1.sqlite"


def receive(light: World, brought: Path, sealed: str | None = None) -> Path:
    """Verify what was brought; the release that it became."""
    memory = brought.parent.parent
    (memory / "releases").mkdir(exist_ok=True)
    Receiver(light.settings(), memory).verify(1, 7, sealed or hash_of_manifest(brought))
    return memory / "releases" / "1"


def hash_of_manifest(brought: Path) -> str:
    """What a night names that has sealed this one."""
    path = brought / "manifest.json"
    return sha256_file(path) if path.is_file() else ""


def reseal(brought: Path, **fields: Any) -> None:
    """Write the manifest with other fields, under a checksum that fits."""
    record = orjson.loads((brought / "manifest.json").read_bytes()) | fields
    (brought / "manifest.json").write_bytes(sealed(record))


def sealed(record: dict[str, Any]) -> bytes:
    record = {name: value for name, value in record.items() if name != CHECKSUM}
    how = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    return orjson.dumps(record | {CHECKSUM: sha256_bytes(orjson.dumps(record, option=how) + b"\n")}, option=how) + b"\n"


def nothing_was_taken(brought: Path) -> bool:
    memory = brought.parent.parent
    return not list((memory / "releases").iterdir()) and not list((memory / "verifying").glob("*"))


def older_manifest(release: Path) -> bytes:
    """The manifest of this release as the program wrote it in format 4: without what format 5 has added."""
    record = orjson.loads((release / "manifest.json").read_bytes()) | {"format_version": 4}
    return sealed({name: value for name, value in record.items() if name not in ("originals", "erasing")})
