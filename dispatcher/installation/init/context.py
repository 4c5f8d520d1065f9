"""What every step of `hmem init` works with."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import Layout, account
from shared.config.settings import Settings
from shared.errors import InstallationIncomplete


@dataclass
class InitContext:
    """`values` are the settings to be, by name in capitals; they are written at one point (steps.py). `fresh`: there were none before."""

    layout: Layout
    terminal: Terminal
    journal: InstallationJournal
    values: dict[str, str]
    own_redis: bool = True
    hello: str = ""  # who wrote to the bot while it waited
    fresh: bool = True
    notes: list[str] = field(default_factory=list)

    def settings(self, **more: str) -> Settings:
        """The settings to be. SettingsError names a wrong one."""
        from dispatcher.installation.settings_files import checked

        return checked({**self.values, **more})

    def make_directory(self, path: Path, mode: int, owner: str | None = None, group: str | None = None) -> bool:
        """Create a directory with this owner, or correct the mode of ours; whether it was not there."""
        created = not path.is_dir()
        self._make_parents(path)
        try:
            if created:
                path.mkdir(parents=True, exist_ok=True)
                self.journal.add("directory", path)
            if created or path in self._known():
                _own(path, owner, group)
                path.chmod(mode)
        except OSError as error:
            raise InstallationIncomplete(
                f"{path} cannot be created ({error.strerror}). Correct that, then run hmem init again."
            ) from error
        return created

    def _make_parents(self, path: Path) -> None:
        """The directories above, which every account may enter if there are accounts (our umask is 077)."""
        for above in reversed(path.parents):
            if not above.is_dir():
                above.mkdir()
                above.chmod(0o755 if self.layout.day_user else 0o700)

    def _known(self) -> set[Path]:
        return {Path(name) for name in self.journal.names("directory")}


def _own(path: Path, owner: str | None, group: str | None) -> None:
    user = account(owner) if owner else None
    if user:
        shutil.chown(path, user.pw_uid, group or user.pw_gid)
    elif os.geteuid() == 0 and owner is None and group:
        shutil.chown(path, 0, group)
