"""What lies in the state directory beside the store: the chats' working directories, prompts that a crash left, copies of indexes nobody reads."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from shared.config.settings import Settings
from shared.system.files import PrivateDir, remove_tree, safe_name

#: Directories of processes; a dead one's go when a new one is made.
PROMPTS, VIEWS = "prompts", "views"


def remove_files(settings: Settings, chats: Collection[str]) -> int:
    """How many files and directories went. The working directories themselves stay: a task may be about to begin there."""
    state, own = settings.hmem_state_dir, found_files(settings, chats)
    for path in own:
        remove_tree(path)
    return len(own) + sum(_remove_abandoned(state / name) for name in (PROMPTS, VIEWS))


def found_files(settings: Settings, chats: Collection[str]) -> list[Path]:
    """What lies in the chats' working directories."""
    return [path for chat in chats for path in _inside(settings.hmem_state_dir / "chats" / safe_name(chat))]


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _remove_abandoned(base: Path) -> int:
    before = len(_inside(base))
    if before:
        PrivateDir(base).remove()
    return before - len(_inside(base))
