"""Aliases of server indexes follow `current`, for other programs; our readers use the name in their release. Also removes unused indexes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from shared.config.kinds import place_of, served
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.vectors.base import ServedBuilder
from shared.vectors.on_server import served_names
from shared.vectors.registry import served_builder_of

#: In HMEM_NIGHT_DIR: where indexes of ours are (nightly/index/servers.py).
SERVERS_FILE = "servers.json"


def follow(settings: Settings, release: Path) -> str | None:
    """Point the aliases at the indexes of this release; why one could not be updated, or None. Does nothing for a release without such indexes."""
    for name in served():
        if (release / place_of(name)).is_file():
            try:
                _builder(settings, name).follow(release / place_of(name))
            except (HmemError, ImportError) as error:
                return f"Release {release.name} has its vectors on the {name} server, whose alias {settings.index_name} could not be updated: {error}"
    return None


def servers(settings: Settings, releases: Sequence[Path] = ()) -> list[str]:
    """The servers that the settings know of, or one of these releases reads."""
    return [
        name
        for name in served()
        if name in settings.indexes
        or served()[name](settings)
        or any((one / place_of(name)).is_file() for one in releases)
    ]


def named_in(releases: Sequence[Path]) -> list[str]:
    """The names of all server indexes that these releases use; ReleaseRefused if one cannot be determined."""
    return [name for release in releases for name in served_names(release)]


def sweep(settings: Settings, server: str, named: Collection[str], newest: int | None = None) -> list[str]:
    """Remove indexes that no release names, of runs up to `newest`; returns their names. HmemError if the server does not answer."""
    return _builder(settings, server).sweep(named, newest)


def left_over(settings: Settings, server: str, named: Collection[str], newest: int | None = None) -> list[str]:
    """The names of what `sweep` would remove."""
    return _builder(settings, server).left_over(named, newest)


def _builder(settings: Settings, server: str) -> ServedBuilder:
    builder = served_builder_of(server, settings, 0)
    builder.refuse_unless_usable()
    return builder
