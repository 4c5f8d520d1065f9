"""The files that came with messages, for a day between bot and dispatcher (shared/wire/media/).

All are removed, whatever is forgotten, but those of messages that still wait for an answer and are not covered: once answered, nothing reads
them again. Those that are kept (KEEP_MEDIA) go with the turns that they came with: here as long as they wait for the night, in the archive by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis import Redis, ResponseError

from dispatcher.chat_data.forget.layers.tasks import TasksLayer
from dispatcher.chat_data.forget.request import Scope
from shared.config.settings import Settings
from shared.wire import keys
from shared.wire.media.kept import WaitingFile, waiting_files


def remove_media(settings: Settings, client: Redis, tasks: TasksLayer, scope: Scope) -> int:
    """Returns how many."""
    covered = {one.raw for one in tasks.covered(scope)}
    needed = {media.sha256 for one in tasks.all() if one.task and one.raw not in covered for media in one.task.media}
    removed = _remove_values(client, needed)
    if settings.media_dir:
        from shared.wire.media.in_files import MediaFolder

        removed += MediaFolder(settings.media_dir).remove_except(needed)
    return removed


def _remove_values(client: Any, needed: set[str]) -> int:
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
    """Returns how many."""
    removed = 0
    for one in list(find_kept(client, scope)):
        removed += int(client.delete(one.key))
        client.hdel(keys.KEPT, one.field)
    return removed
