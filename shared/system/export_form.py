"""What an export is written for. Apart from the rest, because every command line knows it."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """FILES: to read and to process; OBSIDIAN: a vault, too."""

    FILES = "files"
    OBSIDIAN = "obsidian"
