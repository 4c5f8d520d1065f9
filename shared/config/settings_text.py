"""The text of a settings file with some values changed: a value is replaced in its line or appended, and what its owner wrote stays."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from shared.errors import SettingsError


def with_values(text: str, values: Mapping[str, str], path: Path) -> str:
    """The text with these settings; SettingsError if that would not be TOML. `path` is for messages."""
    known = parsed(text, path)
    text = text if text.endswith("\n") or not text else f"{text}\n"
    for name, value in values.items():
        if name in known and str(known[name]) == value:
            continue
        line = f"{name} = {_toml(value)}"
        text, replaced = re.subn(rf"(?m)^{name}[ \t]*=.*$", line.replace("\\", "\\\\"), text, count=1)
        text += "" if replaced else f"{line}\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} could not be changed without breaking it ({error}). Change it by hand.") from error
    return text


def parsed(text: str, path: Path) -> dict[str, object]:
    """The values of a settings file; SettingsError if it cannot be read."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error}. Correct or remove it.") from error


def _toml(value: str) -> str:
    """A basic string: as in JSON, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
