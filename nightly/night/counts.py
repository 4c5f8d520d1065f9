"""The counts of a night, from the results of the steps that are done: for its summary, and for a night that stopped on its way."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What the mirror of the archive is at the end of a night; None without one, or where nothing is known.
MIRROR_OK, MIRROR_LAGS = "ok", "lags"


def counts_of(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`results`: step → its result. A step that is not done counts 0, and None where 0 would be wrong: sizes in bytes, the mirror, and what
    archive and release hold."""
    archive, chunk, publish = (results.get(name, {}) for name in ("archive", "chunk", "publish"))
    ledger = archive.get("ledger", {})
    return {
        "exported": ledger.get("exported", results.get("export", {}).get("records", 0)),
        "new": ledger.get("new", 0),
        "new_versions": ledger.get("new_version", 0),
        "already_archived": ledger.get("already_archived", 0),
        "quarantined": ledger.get("quarantined", 0),
        "reasons": ledger.get("reasons", {}),
        "chats": sum(bool(one.get("new") or one.get("new_version")) for one in ledger.get("chats", {}).values()),
        "turns": archive.get("turns"),
        "chunks": chunk.get("chunks"),
        "refused_tombstones": archive.get("refused_tombstones", {}),
        "moved": publish.get("moved"),
        "gate": publish.get("gate", {}),
        "release_bytes": publish.get("bytes", chunk.get("bytes")),
        "media": archive.get("media", {}),
        "deleted": results.get("flush", {}).get("deleted", 0),
        "mirror": _mirror(archive, results.get("flush", {})),
        "seconds": {name: result["seconds"] for name, result in results.items() if "seconds" in result},
    }


def _mirror(archive: Mapping[str, Any], flush: Mapping[str, Any]) -> str | None:
    """The last step that looked at the mirror knows best: `flush`, since texts came after `archive`."""
    if flush.get("mirror_failed"):
        return MIRROR_LAGS
    if flush.get("mirrored") is not None:
        return MIRROR_OK
    before = archive.get("mirror")
    if not before:
        return None
    return MIRROR_LAGS if "error" in before else MIRROR_OK


def free_bytes(directory: Path) -> int | None:
    """Free on the disk of the night's directory; None where that cannot be told."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None
