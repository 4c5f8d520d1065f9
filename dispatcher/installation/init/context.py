"""What every step of `hmem init` works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import Layout, give
from shared.config.settings import Settings
from shared.errors import InstallationIncomplete


@dataclass
class InitContext:
    """`values` are the settings to be, by name in capitals. `fresh`: nothing was created before; `changed`: a settings file was."""

    layout: Layout
    terminal: Terminal
    journal: InstallationJournal
    values: dict[str, str]
    own_redis: bool = True
    hello: str = ""  # who wrote to the bot while it waited
    fresh: bool = True
    changed: bool = False
    as_user: bool = False  # root with --user
    notes: list[str] = field(default_factory=list)

    def settings(self, **more: str) -> Settings:
        """The settings to be. SettingsError names a wrong one."""
        from dispatcher.installation.settings_files import checked

        return checked({**self.values, **more})

    def make_directory(self, path: Path, mode: int, owner: str | None = None, group: str | None = None) -> bool:
        """Create a directory with this owner, or correct the mode of ours; whether it was not there."""
        created = not path.is_dir()
        try:
            self._make_parents(path)
            if path == self.layout.config:  # the journal is in it
                path.mkdir(exist_ok=True)
            if created:
                self.journal.add("directory", path)
                path.mkdir(exist_ok=True)
            if path in self._known():  # also after a kill between these lines
                give(path, mode, owner, group)
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
