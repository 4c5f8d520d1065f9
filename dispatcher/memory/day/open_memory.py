"""How a command or a tool server opens memory: each part when it is first used, all of them closed together.

A dispatcher has a ServedRelease instead, which many tasks read while a new release is being opened.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, closing, nullcontext

from dispatcher.memory.day.memory import DayMemory
from dispatcher.releases.crash_guard import open_vectors
from dispatcher.releases.served import Identity, identity_of
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput
from shared.release.manifest import current_release, no_release
from shared.search.recall import OpenRelease


class OpenedMemory:
    """`day` and the release that `current` leads to, for one reader at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._release: OpenRelease | None = None
        self._identity: Identity | None = None
        self.day = DayMemory(settings, lambda: nullcontext(self._release))  # a command that only writes needs none

    def release(self) -> OpenRelease | None:
        """The current release without its vectors, opened again when `current` has moved; None if there is none.

        ReleaseRefused or OSError if it cannot be read: then the previous one stays open.
        """
        path = current_release(self._settings.hmem_memory_dir)
        if path is not None and identity_of(path) != self._identity:
            identity = identity_of(path)
            opened = OpenRelease(self._settings, path)
            self.close_release()
            self._release, self._identity = opened, identity
        return self._release

    def required_release(self) -> OpenRelease:
        """The same; InvalidInput with what to do if there is none."""
        if (release := self.release()) is None:
            raise InvalidInput(no_release(self._settings.hmem_memory_dir))
        return release

    def release_or_reason(self, failed: str) -> tuple[OpenRelease | None, str | None]:
        """(the current release, else the previous one, else None; why it is not the current one). `failed` is the start of the reason if the
        release cannot be read."""
        try:
            if current_release(self._settings.hmem_memory_dir) is None:
                return self._release, no_release(self._settings.hmem_memory_dir)
            return self.release(), None
        except (HmemError, OSError) as error:
            return self._release, f"{failed}: {error}"

    def open_vectors(self) -> None:
        """Open the day's embedder, and the vectors of the release if that is open; an index that ends its reader does so once. Slow."""
        if self.day.wanted:
            self.day.embedder.open()
        if self._release is not None:
            open_vectors(self._settings, self._release)

    def close_release(self) -> None:
        """Close the release until it is used again."""
        if self._release is not None:
            self._release.close()
        self._release = self._identity = None

    def close(self) -> None:
        self.close_release()
        self.day.close()


def open_memory(settings: Settings) -> AbstractContextManager[OpenedMemory]:
    """The memory of this host for one command, closed at its end. Nothing is opened before it is used."""
    return closing(OpenedMemory(settings))
