"""Settings out of flat TOML, as the settings file and the credentials (shared/config/credentials.py) hold them."""

from __future__ import annotations

import tomllib
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from shared.config import credentials
from shared.errors import SettingsError


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
                f"{place}: unknown setting {', '.join(unknown)}. docs/settings.md lists the names (in capitals)."
            )
        return {known[name]: value for name, value in values.items()}


class CredentialsSource(TomlSource):
    """What shared/config/credentials.py finds."""

    def __call__(self) -> dict[str, Any]:
        found = credentials.read()
        return self.values(f"The credentials file {found.place}", found.content) if found else {}


def secrets_of(settings: BaseSettings) -> list[str]:
    """The settings that open something: secrets, and addresses with a password in them."""
    found = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        address = not field.repr and isinstance(value, str) and urlsplit(value).password
        if isinstance(value, SecretStr) or address:
            found.append(name.upper())
    return found
