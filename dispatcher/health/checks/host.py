"""Checks of this host: the secret, the state directory, formats, the free space on its disks, Claude kept from our files. They leave nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from redis import RedisError

from dispatcher.claude.environment import cli_environment, find_cli
from dispatcher.claude.sandbox import Walls
from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from shared.config.credentials import variables_set
from shared.config.installation import version
from shared.config.ownership import OURS, refuse_unsafe, user_name
from shared.config.settings import Settings
from shared.config.sources import secrets_in_file, secrets_of, settings_file
from shared.errors import ClaudeUnavailable, SettingsError
from shared.system.formats import refuse_newer_directories, refuse_newer_redis
from shared.turns.signed import signing_key
from shared.wire import keys

#: Shares of a file system that are left. Below the first one it is a problem if there is little left in bytes as well.
FULL_SHARE, FULL_BYTES = 0.05, 1 << 30
NEARLY_FULL_SHARE = 0.15
_PROBE_BYTES = 4096
ROOM = "Free some space, or lower RELEASES_KEPT; releases and the archive are the large parts."
OPEN_REDIS = "Redis requires no password from this host, so a tool of the Claude CLI with network access can read and write all data of the day"
#: Directories of chats that are checked.
LOOKED_AT = 10_000


def check_secret(setup: Setup) -> Finding:
    """Results can be signed."""
    signing_key(setup.settings, "hmem run refuses to start")
    if (file := settings_file()) and _open_to_others(file) and (secrets := secrets_in_file(setup.settings.every())):
        fix = f"Move them to a credentials file (HMEM_CREDENTIALS), or chmod 600 {file} and chown it to the user who runs this."
        everybody = bool(file.stat().st_mode & 0o007)
        others = "every user of this host" if everybody else "users other than its owner"
        sentence = f"{file} contains secrets ({', '.join(secrets)}), and {others} may read it."
        return problem(SettingsError.exit_code, sentence, fix) if everybody else warning(sentence, fix)
    return ok("RESULT_HMAC_KEY is set; whether the bot has the same one cannot be checked from here.")


def _open_to_others(file: Path) -> bool:
    """Whether others than this user may read it. One of root's that this user's group may read is as `hmem init` makes it."""
    found = file.stat()
    if found.st_uid == 0 and found.st_gid == os.getegid() != 0:
        return bool(found.st_mode & 0o027)
    return bool(found.st_mode & 0o077)


def check_state(setup: Setup) -> Finding:
    """The dispatcher can write its own files."""
    state = setup.settings.hmem_state_dir
    try:
        if not state.exists():
            return _state_to_be_made(state)
        # A file without a name: nothing of it stays, however this process ends.
        with tempfile.TemporaryFile(dir=state) as probe:
            probe.write(b"\0" * _PROBE_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            sentence = f"{state} cannot be written, because its disk is full, so answers fail or come without memory."
            return problem(Fault.DISK_NEARLY_FULL, sentence, ROOM)
        return _not_writable(state, error.strerror or "it failed")
    for inner in _directories(state):
        if not os.access(inner, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            return _not_writable(inner, "this user may not write there; perhaps another user created it")
    owner = state.stat().st_uid
    if owner != os.geteuid():
        name = user_name(owner)
        return warning(
            f"{state} belongs to {name}, but this ran as {user_name(os.geteuid())}, who may have rights that {name} does not have.",
            f"Run it as that user: sudo -u {name} hmem doctor",
        )
    return ok(f"The state directory {state} can be written.")


def _directories(state: Path) -> Iterator[Path]:
    """Those in the state directory, then those of the chats, up to LOOKED_AT."""
    yield from sorted(path for path in state.iterdir() if path.is_dir())
    with contextlib.suppress(FileNotFoundError), os.scandir(state / "chats") as chats:
        yield from (Path(one.path) for one in islice(chats, LOOKED_AT) if one.is_dir(follow_symlinks=False))


def _state_to_be_made(state: Path) -> Finding:
    above = next(path for path in state.parents if path.exists())
    if os.access(above, os.W_OK | os.X_OK):
        return ok(f"The state directory {state} does not exist yet; the dispatcher can create it.")
    return _not_writable(state, "it does not exist, and this user cannot create it")


def _not_writable(path: Path, why: str) -> Finding:
    return problem(
        Fault.STATE_DIRECTORY,
        f"{path} cannot be written by {user_name(os.geteuid())} ({why}), so answers fail or come without memory.",
        "Create it for the dispatcher's user (sudo install -d -m 700 -o USER; chown -R if it exists), or set HMEM_STATE_DIR.",
    )


def check_directories(setup: Setup) -> Finding:
    """None of our directories is a link to elsewhere, and only its owner and root may write there. StorageError for the first that is wrong."""
    checked = 0
    for setting, fixed in OURS.items():
        root: Path = getattr(setup.settings, setting)
        with contextlib.suppress(PermissionError):  # another user's
            if not root.is_dir():  # other checks say what that means
                continue
            owners = {0, os.geteuid(), root.stat().st_uid}  # night and dispatcher may run as different users
            refuse_unsafe(root, owners, follow=True)
            checked += 1
            for name in fixed:
                refuse_unsafe(root / name, owners)
    return ok(
        f"{checked} of our directories are readable by this user: they contain no links, and others may not write there."
    )


def check_formats(setup: Setup) -> Finding:
    """No newer program has written in our directories or in Redis. (Day store, release and segments are judged by who reads them.)"""
    refuse_newer_directories(setup.settings)
    refuse_newer_redis(cast(bytes | None, setup.redis.get(keys.FORMAT)))
    return ok(f"No newer program than this one ({version()}) has written in our directories or in Redis.")


def check_disk(setup: Setup) -> Finding:
    """There is free space on each file system that we write to."""
    findings = [_free_space(setup, path) for path in our_directories(setup.settings)]
    if not findings:
        return warning("None of our directories exists yet, so no disk was measured.", "Create them (docs/install.md).")
    return max(findings, key=lambda found: ("ok", "warning", "problem").index(found.state))


def our_directories(settings: Settings) -> list[Path]:
    """Those of our three directories that exist, whose disks must have room."""
    every = (settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir)
    return [path for path in every if path.is_dir()]


def _free_space(setup: Setup, path: Path) -> Finding:
    usage = setup.disk_usage(path)
    # As df has it: the size has blocks, too, that we may not use.
    share = usage.free / max(1, usage.used + usage.free)
    left = f"{usage.free / (1 << 30):.1f} GiB ({share:.0%}) are left on the disk of {path}"
    if share < FULL_SHARE and usage.free < FULL_BYTES:
        return problem(Fault.DISK_NEARLY_FULL, f"Only {left}: the next night or answer may fail.", ROOM)
    if share < NEARLY_FULL_SHARE:
        return warning(f"Only {left}.", ROOM)
    return ok(f"{left}.")


def check_isolation(setup: Setup) -> Finding:
    """Secrets, and the sandbox of the Claude CLI. Only warnings: it works as well without."""
    settings = setup.settings
    weaker = _walls(settings)
    with contextlib.suppress(RedisError):  # one that requires a password does not answer without
        if not urlsplit(settings.redis_url).password and setup.redis.ping():
            # Landlock hides files and processes, but not network addresses.
            weaker.append(OPEN_REDIS)
    if exposed := ", ".join(variables_set(secrets_of(settings.every()))):
        weaker.insert(
            0, f"{exposed} is in the environment, which every child process of this shell or service inherits"
        )
    if not weaker:
        return ok("No secrets are in the environment, and the Claude CLI cannot read our files and secrets.")
    return warning(
        f"The parts are not fully isolated from each other: {'; '.join(weaker)}.",
        "systemd/README.md describes a setup with three users and secrets in files.",
    )


def _walls(settings: Settings) -> list[str]:
    """What is known in advance, then what a test shows."""
    try:
        walls = Walls(settings, cli_environment(settings), find_cli(settings))
    except ClaudeUnavailable:  # another check reports it
        return []
    known = f"Landlock does not keep the Claude CLI from all of our files: {walls.open_because}"
    return list(filter(None, [known if walls.open_because else None, walls.found_open()]))
