"""Settings out of flat TOML, as the settings file and the credentials (shared/config/credentials.py) hold them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from shared.config import credentials
from shared.config.ownership import refuse_changeable
from shared.errors import SettingsError

DEFAULT_CONFIG = Path("/etc/hmem/hmem.toml")


class TomlSource(PydanticBaseSettingsSource):
    """TOML: flat, names in capitals as in the environment; an unknown name is an error, not a silent typo."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False

    def values(self, place: str, content: bytes) -> dict[str, Any]:
        try:
            values = tomllib.loads(content.decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{place} cannot be read: {error}. Correct or remove it.") from error
        known = {name.upper(): name for name in self.settings_cls.model_fields}
        if unknown := sorted(set(values) - set(known)):
            raise SettingsError(
                f"{place}: unknown setting {', '.join(unknown)}. The README lists the names (in capitals)."
            )
        return {known[name]: value for name, value in values.items()}


class CredentialsSource(TomlSource):
    """What shared/config/credentials.py finds."""

    def __call__(self) -> dict[str, Any]:
        found = credentials.read()
        return self.values(f"The credentials file {found.place}", found.content) if found else {}


class FileSource(TomlSource):
    """The settings file."""

    def __call__(self) -> dict[str, Any]:
        path = settings_file()
        if path is None:
            return {}
        try:
            with path.open("rb") as file:
                refuse_changeable(f"The settings file {path}", os.fstat(file.fileno()))
                content = file.read()
        except OSError as error:
            raise SettingsError(f"The settings file {path} cannot be read: {error}. Mend or remove it.") from error
        return self.values(f"The settings file {path}", content)


def settings_file() -> Path | None:
    """The file that settings are read from, if there is one."""
    named = os.environ.get("HMEM_CONFIG")
    return Path(named) if named else DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None


def secrets_of(settings: BaseSettings) -> list[str]:
    """The settings that open something: secrets, and addresses with a password in them."""
    found = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        address = not field.repr and isinstance(value, str) and urlsplit(value).password
        if isinstance(value, SecretStr) or address:
            found.append(name.upper())
    return found


def secrets_in_file(settings: BaseSettings) -> list[str]:
    """Which of them the settings file holds."""
    path = settings_file()
    there = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    return [name for name in secrets_of(settings) if name in there]
