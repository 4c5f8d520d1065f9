"""`hmem doctor --fix`: what can be repaired without a risk to anything that is stored. Each repair is a sentence first, and is done only after that.

Safe means: permissions are only taken away from others; Redis is only made to keep more; programs of `hmem init` are only started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from redis.exceptions import RedisError

from dispatcher.installation.init.redis_server import WANTED
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import layout_here
from dispatcher.installation.services.by_hand import ByHand
from dispatcher.installation.services.choose import services_of
from shared.config import credentials
from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.config.sources import secrets_in_file, settings_file
from shared.errors import HmemError
from shared.system.privileges import as_owner_of
from shared.wire.client import asking_once, open_redis

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Repair:
    """`sentence` says what is wrong and what will be done; `carry_out` does it."""

    sentence: str
    carry_out: Callable[[], object]


def of_files(*, unseen: bool = False) -> Iterator[Repair]:
    """Settings files that others may write, for which no command would start. `unseen`: nobody looks at their contents first, so they are left."""
    for path in () if unseen else (*filter(None, [settings_file()]), *_credential_files()):
        with suppress(OSError):  # it is not there, or another user's
            if (mode := path.stat().st_mode) & _OTHERS_WRITE:
                why = "may be changed by other users, who could choose the commands that run here. Look at its contents first, then"
                yield _mode(path, mode & ~_OTHERS_WRITE, why)


def _credential_files() -> Iterator[Path]:
    for place in credentials.places():
        with suppress(OSError):  # closed to this user
            yield from place.glob("*.toml") if place.is_dir() else [place]


def repairs(settings: Settings) -> Iterator[Repair]:
    """All that there is to do with these settings, in the order in which it is done."""
    yield from _secrets(settings)
    yield from _directories(settings)
    yield from _redis(settings)
    yield from _services(settings)


def _secrets(settings: Settings) -> Iterator[Repair]:
    path = settings_file()
    with suppress(OSError):
        if path and (mode := path.stat().st_mode) & stat.S_IRWXO and secrets_in_file(settings.every()):
            yield _mode(path, mode & ~stat.S_IRWXO, "contains secrets, and every user of this host may read it")


def _directories(settings: Settings) -> Iterator[Repair]:
    for setting, inner in OURS.items():
        root: Path = getattr(settings, setting)
        for path in (root, *(root / name for name in inner)):
            with suppress(OSError):
                found = path.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_mode & _OTHERS_WRITE and os.geteuid() in (0, found.st_uid):
                    sentence = (
                        f"{path} may be changed by other users, who could put links into it: take that right from them."
                    )
                    yield Repair(sentence, partial(_close, root, path))


def _close(root: Path, path: Path) -> None:
    """As the owner of the directory, with its rights only: it could have put a link there meanwhile."""
    with as_owner_of(root):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o2755)
        finally:
            os.close(descriptor)


def _mode(path: Path, mode: int, why: str) -> Repair:
    return Repair(f"{path} {why}: set its mode to {mode & 0o777:04o}.", lambda: path.chmod(mode & 0o777))


def _redis(settings: Settings) -> Iterator[Repair]:
    """What its administrator may set; where only others may, the doctor says the commands."""
    url = settings.redis_url
    with suppress(RedisError, ValueError), closing(open_redis(url, asking_once(5.0))) as client:
        for name, wanted in WANTED.items():
            now = client.config_get(name).get(name)
            if now is not None and now != wanted:
                sentence = f"Redis has {name} {now}, and could lose turns: set it to {wanted}, and write that to its settings file."
                yield Repair(sentence, partial(_set, url, name, wanted))


def _set(url: str, name: str, value: str) -> None:
    with closing(open_redis(url, asking_once(5.0))) as client:
        client.config_set(name, value)
        client.config_rewrite()


def _services(settings: Settings) -> Iterator[Repair]:
    """Programs that `hmem init` has set up here, and that do not run."""
    try:
        layout = layout_here()
        if layout.settings_file != settings_file() or InstallationJournal(layout.journal).is_empty:
            return
        manager = services_of(layout, settings)
    except HmemError:
        return
    if not isinstance(manager, ByHand) and (stopped := manager.stopped()):
        yield Repair(
            f"{', '.join(stopped)} of this installation {'does' if len(stopped) == 1 else 'do'} not run: start by {manager.name}.",
            lambda: manager.start(stopped),
        )
