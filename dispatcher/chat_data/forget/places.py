"""What a forgetting removes whole, for the preview: releases, transcripts and files, by number and name, without any of their text."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.chat_data.forget.archive_part import NightPart
from dispatcher.chat_data.forget.layers.claude import ClaudeLayer
from dispatcher.chat_data.forget.layers.files import found_files
from dispatcher.chat_data.forget.request import Scope
from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.release.manifest import current_release
from shared.release.retention import read_pin, release_runs

#: Names of each kind that a preview shows.
SHOWN = 10


def places(settings: Settings, scope: Scope, night: NightPart) -> dict[str, Any]:
    """`releases`: runs that are removed; `transcripts` and `files`: names of removed files; `mirror`: the mirror of the archive, or None."""
    memory = settings.hmem_memory_dir
    current, pinned = None, None
    with suppress(ReleaseRefused):
        path = current_release(memory)
        current = int(path.name) if path else None
    with suppress(ReleaseRefused):
        pin = read_pin(memory)
        pinned = pin.run if pin else None
    transcripts = ClaudeLayer(settings).find(scope.chats, scope.sessions, ())
    return {
        "releases": release_runs(memory) if scope.tombstones else [],
        "current": current,
        "pinned": pinned,
        "now": night.archive_here and not night.later,
        "transcripts": _names(transcripts, Path.home()),
        "files": _names(found_files(settings, scope.chats), settings.hmem_state_dir),
        "mirror": settings.archive_mirror if scope.tombstones else None,
    }


def places_lines(found: dict[str, Any]) -> list[str]:
    """Lines for people, in the format of the layers' lines."""
    lines = []
    if runs := found["releases"]:
        marked = [f"{run}{_mark(found, run)}" for run in runs]
        when = "the night that runs now" if found["now"] else "the next night"
        lines.append(
            f"  {'releases':34} {len(runs)}: {', '.join(marked)}; {when} builds one without it, then these are removed"
        )
    for name, kind in (("claude: transcripts", "transcripts"), ("files", "files")):
        if names := found[kind]:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            lines.append(f"  {name:34} {len(names)}: {', '.join(names[:SHOWN])}{more}")
    if found["mirror"]:
        lines.append(f"  {'mirror':34} {found['mirror']}: a copy of the archive, so it is erased there, too")
    return lines


def _mark(found: dict[str, Any], run: int) -> str:
    marks = [name for name in ("current", "pinned") if found[name] == run]
    return f" ({', '.join(marks)})" if marks else ""


def _names(paths: list[Path], base: Path) -> list[str]:
    """Relative to `base` if inside it."""
    return [os.path.relpath(path, base) if path.is_relative_to(base) else str(path) for path in paths]
