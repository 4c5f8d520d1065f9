"""The state directory without the store: the chats' working directories, their media, prompts that a crash left, unused copies of indexes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import ResponseError

from dispatcher.chat_data.forget.layers.tasks import TasksLayer
from dispatcher.chat_data.forget.request import Scope
from shared.config.settings import Settings
from shared.system.files import PrivateDir, remove_tree, safe_name
from shared.wire import keys
from shared.wire.media import WaitingFile, waiting_files

#: Directories of processes; those of dead processes are removed when a new one is created.
PROMPTS, VIEWS = "prompts", "views"
#: What was in a chat's directory before an answer (dispatcher/features/media/made_files.py).
MADE = "made-files"
#: Files that were sent for an import, by the owner's page or in a chat, and exports that were being made. They may hold any chat.
UPLOADS, EXPORTS = "web-uploads", "web-export-"
UPLOADS_KEPT_SECONDS = 86_400.0


def remove_files(settings: Settings, chats: Collection[str]) -> int:
    """Remove what is in the chats' working directories, and what the owner's page has of imports and exports; returns how many files and directories.

    The working directories themselves stay, because a task may be about to start there.
    """
    state = settings.hmem_state_dir
    found = [path for chat in chats for path in _inside(state / "chats" / safe_name(chat))]
    found += [path for chat in chats if (path := state / MADE / safe_name(chat)).is_file()]
    found += [*_inside(state / UPLOADS), *sorted(state.glob(f"{EXPORTS}*"))]
    for path in found:
        remove_tree(path)
    return len(found) + sum(_remove_abandoned(state / name) for name in (PROMPTS, VIEWS))


def remove_old_uploads(settings: Settings) -> None:
    """Files for imports that nobody has decided about, and exports of a page that was killed, once they are a day old."""
    state = settings.hmem_state_dir
    for path in (*_inside(state / UPLOADS), *state.glob(f"{EXPORTS}*")):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - UPLOADS_KEPT_SECONDS:
                remove_tree(path)


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _remove_abandoned(base: Path) -> int:
    before = len(_inside(base))
    if before:
        PrivateDir(base).remove()
    return before - len(_inside(base))


def remove_media(client: Any, tasks: TasksLayer, scope: Scope) -> int:
    """All files that came with messages but those of messages that still wait for an answer and are not covered: once answered, nothing reads them
    again. Returns how many."""
    covered = {one.raw for one in tasks.covered(scope)}
    needed = {media.sha256 for one in tasks.all() if one.task and one.raw not in covered for media in one.task.media}
    removed = 0
    for key in list(client.scan_iter(match=keys.media("*"), count=1000)):
        if key.decode("utf-8", "replace").removeprefix(keys.media("")) not in needed:
            removed += int(client.delete(key))
    with suppress(ResponseError):
        for member in client.zrange(keys.MEDIA, 0, -1):
            if member.decode("utf-8", "replace").rpartition(":")[2] not in needed:
                client.zrem(keys.MEDIA, member)
    return removed


def find_kept(client: Any, scope: Scope) -> Iterator[WaitingFile]:
    """The kept files of what is covered that wait for the night: also of a task of the chat that left no turn."""
    listed = client.hgetall(keys.KEPT) if client.type(keys.KEPT) == b"hash" else {}
    names = client.scan_iter(match=f"{keys.KEPT}:*", count=1000)
    for one in waiting_files(listed, names):
        if one.task_id in scope.tasks or (one.chat_id and scope.covers_text(one.chat_id, one.task_id, one.at or None)):
            yield one


def remove_kept(client: Any, scope: Scope) -> int:
    """Those that are kept (KEEP_MEDIA) go with the turns that they came with: here as long as they wait for the night, in the archive by it.
    Returns how many."""
    removed = 0
    for one in list(find_kept(client, scope)):
        removed += int(client.delete(one.key))
        client.hdel(keys.KEPT, one.field)
    return removed
