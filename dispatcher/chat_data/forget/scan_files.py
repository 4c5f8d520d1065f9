"""The scan behind a forgetting, for the files of messages: by name, wherever files are named after their messages, and by their bytes anywhere.

A file that a message which stays has, too, is no evidence: in archive and mirror it has that message's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.chat_data.forget.layers.claude import ClaudeLayer
from dispatcher.chat_data.forget.request import Scope
from shared.config.settings import Settings
from shared.config.values import names_a_host
from shared.system.files import sha256_file
from shared.system.privileges import as_owner_of
from shared.wire import keys


def add_files(found: dict[str, Any], settings: Settings, client: Any, scope: Scope, *, archive: bool) -> None:
    """Add what is left of the covered files to the scan's part of the receipt. `archive`: they must be gone from archive and mirror, too."""
    left = sorted(_left(settings, client, scope, archive=archive)) if scope.files else []
    found["kept_files"] = len(scope.files)
    found["found"] = [*found["found"], *({"place": place, "hits": 1} for place in left)]


def _left(settings: Settings, client: Any, scope: Scope, *, archive: bool) -> Iterator[str]:
    for task_id, sha256, _ in scope.files:
        if client.exists(keys.kept(task_id, sha256)):
            yield f"redis: {keys.KEPT}:{task_id}"
    state, night, mirror = settings.hmem_state_dir, settings.hmem_night_dir, settings.archive_mirror
    yield from _in([state, *([settings.media_dir] if settings.media_dir else []), *ClaudeLayer(settings).places], scope)
    if archive:
        local = [Path(mirror)] if mirror and not names_a_host(mirror) else []
        with as_owner_of(night):
            yield from list(_in([night, *local], scope))


def _in(places: list[Path], scope: Scope) -> Iterator[str]:
    """Files below these places that have such a name, or such bytes."""
    names = {f"{task_id}.{sha256}" for task_id, sha256, _ in scope.files}
    sizes = {size for _, _, size in scope.files if size}
    hashes = {f"sha256:{sha256}" for _, sha256, _ in scope.files}
    for path in (Path(folder) / name for place in places for folder, _, files in os.walk(place) for name in files):
        with suppress(OSError):  # it has gone
            size = path.lstat().st_size
            named = path.name in names and size > 0  # a mirror's key that may not delete leaves the name
            if named or (size in sizes and not _is_anothers(path) and sha256_file(path) in hashes):
                yield str(path)


def _is_anothers(path: Path) -> bool:
    """Whether it is the file of a message in the archive or its mirror; `named` has decided whether of a forgotten one. Links are not followed."""
    return path.is_symlink() or path.parent.parent.name == "media"
