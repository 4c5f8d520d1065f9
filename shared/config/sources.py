"""Where settings come from: the environment, the credentials (shared/config/credentials.py) and the settings file; the first one takes precedence."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from shared.config import credentials
from shared.config.ownership import refuse_changeable
from shared.errors import SettingsError

#: Read when HMEM_CONFIG names no other file. A file of the host takes precedence over one in a HOME, where a program of that user could create it.
DEFAULT_CONFIG = Path("/etc/hmem/hmem.toml")
USER_CONFIG = Path("hmem/hmem.toml")  # in XDG_CONFIG_HOME, or ~/.config
#: How a file begins that `hmem init` has written.
WRITTEN_BY = "# Written by hmem init"


def is_of_init(path: Path) -> bool:
    """Whether `hmem init` has written this file."""
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace").startswith(WRITTEN_BY)


def given_values(names: Iterable[str], file: Path | None) -> dict[str, Any]:
    """Field → value of every setting that is given somewhere; `names` are the existing settings, in capitals.

    SettingsError if the file or the credentials cannot be read or name a setting that does not exist.
    """
    layers = _layers(names, file)
    return {name: value for values in layers.values() for name, value in values.items()}


def _layers(names: Iterable[str], file: Path | None) -> dict[str, dict[str, Any]]:
    """What each place gives; a later one takes precedence."""
    known = {name: name.lower() for name in names}
    return {"file": _of_file(file, known), "credentials": _of_credentials(known), "environment": _of_environment(known)}


def settings_file() -> Path | None:
    """The file that settings are read from, if there is one."""
    if named := os.environ.get("HMEM_CONFIG"):
        return Path(named)
    return next((path for path in (DEFAULT_CONFIG, user_settings_file()) if path and path.exists()), None)


def user_settings_file() -> Path | None:
    """The settings file of this user's own installation, whether it exists or not; None where no home is known."""
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / USER_CONFIG
    except RuntimeError:
        return None


def set_for_children(**values: str) -> None:
    """Set these settings, by their names in capitals, in the environment of the processes that are started from now on."""
    os.environ.update(values)


def _of_environment(known: dict[str, str]) -> dict[str, Any]:
    """In any spelling (REDIS_URL, redis_url); an empty variable counts as unset."""
    return {known[name.upper()]: value for name, value in os.environ.items() if value and name.upper() in known}


def _of_credentials(known: dict[str, str]) -> dict[str, Any]:
    found = credentials.read()
    return _of_toml(f"The credentials file {found.place}", found.content, known) if found else {}


def _of_file(path: Path | None, known: dict[str, str]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            refuse_changeable(f"The settings file {path}", os.fstat(file.fileno()))
            content = file.read()
    except FileNotFoundError as error:
        raise SettingsError(f"There is no settings file {path}. Create it, or correct HMEM_CONFIG.") from error
    except OSError as error:
        raise SettingsError(
            f"The settings file {path} cannot be read: {error.strerror}. Correct or remove it."
        ) from error
    return _of_toml(f"The settings file {path}", content, known)


def _of_toml(place: str, content: bytes, known: dict[str, str]) -> dict[str, Any]:
    """Flat TOML, names in capitals; an unknown name is an error, not a silent typo."""
    values = _parsed(place, content)
    if unknown := sorted(set(values) - set(known)):
        alike = sorted({name for one in unknown for name in get_close_matches(one.upper(), known, n=1)})
        meant = f" Did you mean {', '.join(alike)}?" if alike else ""
        raise SettingsError(
            f"{place}: unknown setting {', '.join(unknown)}.{meant} docs/settings.md lists all names, in capitals."
        )
    return {known[name]: value for name, value in values.items()}


def _parsed(place: str, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{place} cannot be read: {error}. Correct or remove it.") from error


def with_values(text: str, values: Mapping[str, str], path: Path) -> str:
    """The text of a settings file with some values changed, in their lines or appended; what its owner wrote stays. `path` is for messages."""
    known = _parsed(f"The settings file {path}", text.encode())
    text = text if text.endswith("\n") or not text else f"{text}\n"
    for name, value in values.items():
        if name in known and str(known[name]) == value:
            continue
        # A basic string: as in JSON, but for DEL, which TOML wants escaped.
        line = f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        found = re.search(rf"(?m)^{name}[ \t]*=.*$", text)
        text = f"{text[: found.start()]}{line}{_comment(found[0])}{text[found.end() :]}" if found else f"{text}{line}\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} could not be changed without breaking it ({error}). Change it by hand.") from error
    return text


def _comment(line: str) -> str:
    """What follows the value in its line."""
    for end in (sign.start() for sign in re.finditer("#", line)):
        with suppress(tomllib.TOMLDecodeError):  # a # within the value
            tomllib.loads(line[:end])
            return line[len(line[:end].rstrip()) :]
    return ""


def origins(names: Iterable[str]) -> dict[str, str]:
    """Name in capitals → where it is set: `environment`, `credentials` or `file`; none for a default."""
    layers = _layers(names, settings_file())
    return {name.upper(): place for place, values in layers.items() for name in values}


def secrets_of(settings: Iterable[tuple[str, FieldInfo, Any]]) -> list[str]:
    """The settings (`Settings.every`) that give access to something: secrets, and addresses that contain a password."""
    found = []
    for name, field, value in settings:
        address = not field.repr and isinstance(value, str) and urlsplit(value).password
        if isinstance(value, SecretStr) or address:
            found.append(name.upper())
    return found


def secrets_in_file(settings: Iterable[tuple[str, FieldInfo, Any]]) -> list[str]:
    """Names of the secrets in the settings file."""
    path = settings_file()
    there = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    return [name for name in secrets_of(settings) if name in there]
