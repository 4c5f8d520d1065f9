"""The state directory without the store: the chats' working directories, prompts that a crash left, unused copies of indexes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from shared.config.settings import Settings
from shared.system.files import PrivateDir, remove_tree, safe_name

#: Directories of processes; those of dead processes are removed when a new one is created.
PROMPTS, VIEWS = "prompts", "views"
#: What was in a chat's directory before an answer (dispatcher/features/media/made_files.py).
MADE = "made-files"
#: Of the owner's page: files that were uploaded for an import, and exports that were being made. They may hold any chat.
UPLOADS, EXPORTS = "web-uploads", "web-export-"


def remove_files(settings: Settings, chats: Collection[str]) -> int:
    """Remove the files; returns how many. The working directories themselves stay, because a task may be about to start there."""
    state, own = settings.hmem_state_dir, found_files(settings, chats)
    for path in own:
        remove_tree(path)
    return len(own) + sum(_remove_abandoned(state / name) for name in (PROMPTS, VIEWS))


def found_files(settings: Settings, chats: Collection[str]) -> list[Path]:
    """Files and directories in the chats' working directories, and what the owner's page has of imports and exports."""
    state = settings.hmem_state_dir
    own = [path for chat in chats for path in _inside(state / "chats" / safe_name(chat))]
    own += [path for chat in chats if (path := state / MADE / safe_name(chat)).is_file()]
    return [*own, *_inside(state / UPLOADS), *sorted(state.glob(f"{EXPORTS}*"))]


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _remove_abandoned(base: Path) -> int:
    before = len(_inside(base))
    if before:
        PrivateDir(base).remove()
    return before - len(_inside(base))
