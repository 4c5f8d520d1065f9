"""The preview: what would be forgotten, for the owner to review first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.chat_data.forget.archive_part import NightPart
from dispatcher.chat_data.forget.layers.claude import ClaudeLayer
from dispatcher.chat_data.forget.layers.files import found_files
from dispatcher.chat_data.forget.request import Scope
from dispatcher.chat_data.forget.select import Selection
from dispatcher.memory.store.whose import said_by
from shared.config.settings import Settings
from shared.release.retention import marks
from shared.text.format import one_line, shorten, time_text, zoned_text

#: How many texts are shown, and how many characters of each.
SHOWN, CHARACTERS = 10, 120
#: Names of each kind of places.
SHOWN_NAMES = 10
UNDONE = "This cannot be undone."


def preview(selection: Selection, night: NightPart, stays: list[dict[str, str]]) -> dict[str, Any]:
    """`stays`: what no command can remove."""
    turns = sorted(selection.turns.items(), key=lambda item: item[1][0])
    return {
        "asked": selection.scope.asked.to_json(),
        "chats": selection.scope.chats,
        "turns": len(turns),
        "first": turns[0][1][0] if turns else None,
        "last": turns[-1][1][0] if turns else None,
        "texts": [
            {"chat_id": chat_id, "turn_id": turn_id, "at": at, "text": _short(text)}
            for (chat_id, turn_id), (at, text) in turns[:SHOWN]
        ],
        "memories": [
            {"chat_id": memory.chat_id, "number": memory.number, "type": str(memory.type), "text": _short(memory.text)}
            | said_by(memory)
            for memory in selection.memories
        ],
        "tasks": {
            "queued": sum(not one.worker for one in selection.tasks),
            "running": sum(bool(one.worker) for one in selection.tasks),
        },
        "layers": dict(selection.layers),
        "places": _places(night.settings, selection.scope, night),
        "archive": _archive(night),
        "stays": stays,
    }


def _archive(night: NightPart) -> str:
    if not night.archive_here:
        return "not on this host. If it is on another one, the next night there erases it."
    if night.later:
        return "on this host; its part is left to the next night."
    unpinned = " The pin is removed, because the pinned release contains the text." if night.pinned else ""
    return f"on this host; a night will run at once.{unpinned}"


def preview_text(shown: dict[str, Any], zone: ZoneInfo) -> str:
    """For people."""
    span = f", from {time_text(shown['first'], zone)} to {zoned_text(shown['last'], zone)}" if shown["turns"] else ""
    lines = [f"To be forgotten: {shown['turns']} turns of chat {', '.join(shown['chats']) or '(none)'}{span}"]
    if not shown["turns"] and shown["asked"]["kind"] == "chat":
        lines.append(
            "  This host knows no turn of it. It stays forgotten: imports will skip everything that is dated before now."
        )
    lines += [f"  {one['turn_id']}  {time_text(one['at'], zone)}  {one['text']}" for one in shown["texts"]]
    if shown["turns"] > len(shown["texts"]):
        lines.append(f"  and {shown['turns'] - len(shown['texts'])} more")
    lines += [
        f"  memory {one['number']} of chat {one['chat_id']} ({one['type']}{_of(one)}): {one['text']}"
        for one in shown["memories"]
    ]
    lines += [f"  {layer:34} {number}" for layer, number in sorted(shown["layers"].items())]
    lines += _places_lines(shown["places"])
    tasks = shown["tasks"]
    lines.append(f"  tasks: {tasks['queued']} queued, {tasks['running']} being answered; they end without an answer")
    lines += [f"Archive: {shown['archive']}", UNDONE, "", "The receipt will name what no command can remove:"]
    return "\n".join([*lines, *(f"  {one['what']}" for one in shown["stays"])])


def _of(memory: dict[str, Any]) -> str:
    return f" of {memory['speaker']}" if "speaker" in memory else ""


def _short(text: str) -> str:
    return shorten(one_line(text), CHARACTERS)


def _places(settings: Settings, scope: Scope, night: NightPart) -> dict[str, Any]:
    """What is removed whole. `releases`: run → its marks; `transcripts` and `files`: names; `mirror`: of the archive, or None."""
    transcripts = ClaudeLayer(settings).find(scope.chats, scope.sessions, ())
    return {
        "releases": {str(run): some for run, some in marks(settings.hmem_memory_dir)[0].items() if scope.tombstones},
        "now": night.archive_here and not night.later,
        "transcripts": _names(transcripts, Path.home()),
        "files": _names(found_files(settings, scope.chats), settings.hmem_state_dir),
        "mirror": settings.archive_mirror if scope.tombstones else None,
    }


def _places_lines(found: dict[str, Any]) -> list[str]:
    """Lines for people, in the format of the layers' lines."""
    lines = []
    if runs := found["releases"]:
        marked = [f"{run} ({', '.join(some)})" if some else run for run, some in runs.items()]
        when = "the night that runs now" if found["now"] else "the next night"
        lines.append(
            f"  {'releases':34} {len(runs)}: {', '.join(marked)}; {when} builds one without it, then these are removed"
        )
    for name, kind in (("claude: transcripts", "transcripts"), ("files", "files")):
        if names := found[kind]:
            more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
            lines.append(f"  {name:34} {len(names)}: {', '.join(names[:SHOWN_NAMES])}{more}")
    if found["mirror"]:
        lines.append(f"  {'mirror':34} {found['mirror']}: a copy of the archive, so it is erased there, too")
    return lines


def _names(paths: list[Path], base: Path) -> list[str]:
    """Relative to `base` if inside it."""
    return [os.path.relpath(path, base) if path.is_relative_to(base) else str(path) for path in paths]
