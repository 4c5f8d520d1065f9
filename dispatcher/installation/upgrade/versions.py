"""Versions of the program: which one is newer."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

#: Before all others.
_UNKNOWN = Version("0.dev0")


def wheel_version(path: Path) -> str | None:
    """The version in a wheel's name."""
    try:
        return str(parse_wheel_filename(path.name)[1])
    except InvalidWheelFilename:
        return None


def precedence(version: str) -> Version:
    """For comparison, as Python orders versions; local parts (0.2.0+mine) do not count. What is no version is before all of them."""
    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return _UNKNOWN
