"""Whether the library that an index needs is there. Nothing is imported to find out."""

from __future__ import annotations

from shared.config.packages import INDEX_PARTS, how_to_add, missing_package
from shared.errors import SettingsError


def how_to_install(index: str) -> str | None:
    """What to do where the library of this index is missing; None where it is there, or none is needed."""
    part = INDEX_PARTS.get(index)
    return how_to_add(part) if part and missing_package(part) else None


def refuse_without_library(index: str) -> None:
    """SettingsError unless it is there."""
    if how := how_to_install(index):
        raise SettingsError(f"NIGHT_INDEXES names {index}, which is not installed. Change it, or {how}.")
