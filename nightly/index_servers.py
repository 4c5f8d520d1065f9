"""The servers that hold indexes of ours, remembered until nothing of ours is there: settings may change meanwhile, and what was forgotten must go.

HMEM_NIGHT_DIR/servers.json    ["qdrant"]
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from nightly.night import Night
from shared.backends import aliases
from shared.backends.builders import SERVED
from shared.errors import HmemError, ReleaseRefused
from shared.files import write_atomic

SERVERS = "servers.json"


def make_room(night: Night, indexes: Iterable[str]) -> None:
    """Before indexes are built on servers: remember these, and remove what attempts that failed have left there."""
    wanted = [name for name in indexes if name in SERVED]
    if not wanted:
        return
    _remember(night, {*_known(night), *wanted})
    try:
        named = night.target.served()
    except ReleaseRefused as error:  # nothing is removed, and the night goes on
        night.report.say(f"  {error}")
        return
    for server in wanted:
        aliases.sweep(night.settings, server, named)


def sweep(night: Night) -> str | None:
    """Remove the indexes that no release reads any more; why one could not be removed, or None."""
    for server in sorted({*_known(night), *aliases.servers(night.settings)}):
        try:
            night.lease.check()
            for name in aliases.sweep(night.settings, server, night.target.served()):
                night.report.say(f"  {name} is read by no release any more and was removed.")
            if server not in night.settings.indexes and not aliases.left_over(night.settings, server, ()):
                _remember(night, _known(night) - {server})
        except HmemError as error:
            return f"{server}: {error}"
    return None


def _file(night: Night) -> Path:
    return night.settings.hmem_night_dir / SERVERS


def _known(night: Night) -> set[str]:
    try:
        return {name for name in orjson.loads(_file(night).read_bytes()) if name in SERVED}
    except (OSError, ValueError, TypeError):
        return set()


def _remember(night: Night, servers: set[str]) -> None:
    if servers != _known(night):
        write_atomic(_file(night), orjson.dumps(sorted(servers)) + b"\n")
