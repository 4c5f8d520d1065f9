"""The settings file: the one that `HMEM_CONFIG` names, or `/etc/hmem/hmem.toml` when that exists."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings

from shared.config.ownership import refuse_changeable
from shared.config.sources import TomlSource, secrets_of
from shared.errors import SettingsError

DEFAULT_CONFIG = Path("/etc/hmem/hmem.toml")


class FileSource(TomlSource):
    """The settings file as a source of settings."""

    def __call__(self) -> dict[str, Any]:
        path = settings_file()
        if path is None:
            return {}
        try:
            with path.open("rb") as file:
                refuse_changeable(f"The settings file {path}", os.fstat(file.fileno()))
                content = file.read()
        except OSError as error:
            raise SettingsError(f"The settings file {path} cannot be read: {error}. Correct or remove it.") from error
        return self.values(f"The settings file {path}", content)


def settings_file() -> Path | None:
    """The file that settings are read from, if there is one."""
    named = os.environ.get("HMEM_CONFIG")
    return Path(named) if named else DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None


def secrets_in_file(settings: BaseSettings) -> list[str]:
    """Names of the secrets that the settings file holds."""
    path = settings_file()
    there = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    return [name for name in secrets_of(settings) if name in there]
