"""The servers that store our indexes, and the names used there, recorded until nothing is left there: settings may change meanwhile.

HMEM_NIGHT_DIR/servers.json    {"qdrant": ["hmem"]}: server -> each INDEX_NAME that was used there
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from nightly.night.folder import Night, read_record
from shared.config.kinds import served
from shared.config.settings import Settings
from shared.errors import HmemError, ReleaseRefused, SettingsError
from shared.system.files import write_atomic
from shared.vectors import on_server


def make_room(night: Night, indexes: Iterable[str]) -> None:
    """Before indexes are built on servers: remember these, and remove what attempts that failed have left there.

    SettingsError if another installation uses our INDEX_NAME there: each would remove what the other reads.
    """
    for server in (name for name in indexes if name in served()):
        name, known = night.settings.index_name, _known(night)
        try:
            named = night.target.served()
        except ReleaseRefused as error:  # nothing is removed, and the night goes on
            night.report.say(f"  {error}")
            continue
        if name not in known.get(server, ()):
            found = set(on_server.builder_on(night.settings, server).left_over(()))
            if found and not found & set(named):
                raise SettingsError(
                    f"INDEX_NAME={name} is in use on the {server} server ({min(found)}), but not by a release of this installation. Set another "
                    "INDEX_NAME; if these indexes are not needed, remove them there."
                )
            _remember(night, known | {server: [*known.get(server, ()), name]})
        on_server.builder_on(night.settings, server).sweep(named)


def sweep(night: Night) -> str | None:
    """Remove the indexes that no release uses any more; why one could not be removed, or None."""
    for server, names in _known(night).items():
        for name in names:
            try:
                _sweep(night, server, name)
            except HmemError as error:
                return f"{server}, INDEX_NAME={name}: {error} (If that server no longer exists, remove {_file(night)}.)"
    return None


def _sweep(night: Night, server: str, name: str) -> None:
    settings: Settings = night.settings.model_copy(update={"index_name": name})
    night.lease.check()
    for gone in on_server.builder_on(settings, server).sweep(night.target.served()):
        night.report.say(f"  {gone} on the {server} server is no longer used by any release and was removed.")
    in_use = server in night.settings.indexes and name == night.settings.index_name
    if not in_use and not on_server.builder_on(settings, server).left_over(()):
        known = _known(night)
        _remember(night, known | {server: [one for one in known[server] if one != name]})


def _file(night: Night) -> Path:
    return night.settings.hmem_night_dir / on_server.SERVERS_FILE


def _known(night: Night) -> dict[str, list[str]]:
    return {server: list(names) for server, names in (read_record(_file(night)) or {}).items() if names}


def _remember(night: Night, servers: dict[str, list[str]]) -> None:
    write_atomic(_file(night), orjson.dumps(servers, option=orjson.OPT_SORT_KEYS) + b"\n")
