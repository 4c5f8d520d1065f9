"""The aliases of indexes on servers follow `current`, for programs beside ours; our readers go by the name in their release."""

from __future__ import annotations

from pathlib import Path

from shared.backends.builders import SERVED, served_builder_of
from shared.backends.serving import run_of, served_names
from shared.errors import HmemError
from shared.release import PLACES
from shared.settings import Settings


def follow(settings: Settings, release: Path) -> str | None:
    """Point them at the indexes of this release; why one could not be, or None. A release without such indexes moves none."""
    for name in SERVED:
        if (release / PLACES[name]).is_file():
            try:
                builder = served_builder_of(name, settings, 0)
                builder.refuse_unless_usable()
                builder.follow(release / PLACES[name])
            except (HmemError, ImportError) as error:
                return f"The alias {settings.index_name} on the {name} server could not follow: {error}"
    return None


def servers(settings: Settings) -> list[str]:
    """The indexes on servers that the settings know of, built tonight or not."""
    known = {"qdrant": settings.qdrant_url, "redis": settings.redis_stack_url}
    return [name for name in SERVED if name in settings.indexes or known[name]]


def sweep(settings: Settings, named: list[str]) -> list[str]:
    """Remove the indexes of releases that are gone, on every server that the settings know; HmemError if one does not answer."""
    gone: list[str] = []
    for name in servers(settings):
        builder = served_builder_of(name, settings, 0)
        builder.refuse_unless_usable()
        gone += builder.sweep(named)
    return gone


def named_in(releases: list[Path]) -> list[str]:
    """The names of all indexes on servers that these releases read; ReleaseRefused if one cannot be told."""
    return [name for release in releases for name in served_names(release)]


def left_over(settings: Settings, releases: list[Path], current: Path) -> list[str]:
    """Indexes on servers that none of these releases reads, up to the current one's run: a night may be building a later one now."""
    named, newest = named_in(releases), int(current.name)
    found: list[str] = []
    for name in servers(settings):
        found += served_builder_of(name, settings, 0).left_over(named)
    return [one for one in found if run_of(one) <= newest]
