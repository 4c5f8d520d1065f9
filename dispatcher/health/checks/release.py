"""Checks of the release in use, and of the pin: light, because `hmem status` makes them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from redis.exceptions import RedisError

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from dispatcher.health.nights import STALE_HOURS, nights_of, records_of, since_then
from shared.errors import MemoryStale, ReleaseRefused
from shared.release.manifest import (
    LEXICAL,
    MANIFEST,
    RELEASES,
    REPAIR,
    Manifest,
    current_release,
    no_release,
    read_manifest,
    verify,
)
from shared.release.parts import part_files
from shared.release.retention import read_pin
from shared.text.format import counted, zoned_text


def check_release(setup: Setup) -> Finding:
    """There is a release, and this user can read it with this program."""
    memory = setup.settings.hmem_memory_dir
    try:
        if not memory.is_dir():
            if not setup.thorough and not memory.exists():
                return warning(f"There is no release in {memory} yet.", "Run hmem doctor.")
            return problem(
                Fault.MEMORY_MISSING,
                f"The memory directory {memory} is {'not a directory' if memory.exists() else 'missing'}, so nothing can be recalled.",
                "Set HMEM_MEMORY_DIR to where the night publishes, mount it, or create it (sudo install -d -m 700 -o USER).",
            )
        return _look_at(setup, memory)
    except PermissionError as error:
        return _unreadable(Path(error.filename or memory))


def _look_at(setup: Setup, memory: Path) -> Finding:
    if locked := _locked(memory, memory / "releases"):
        return _unreadable(locked)
    release = current_release(memory)
    if release is None:
        sentence, _, fix = no_release(memory).partition(". ")
        if any((memory / RELEASES).glob("[0-9]*")):
            return problem(ReleaseRefused.exit_code, f"{sentence}.", fix)
        return _after_a_night(setup, memory) or warning(f"{sentence}.", fix)
    texts = release / LEXICAL
    if locked := _locked(release, release / MANIFEST, texts) or _locked(*part_files(texts)):
        return _unreadable(locked)
    manifest = verify(release) if setup.thorough else _same_sizes(release)
    return ok(
        f"Release {manifest.run} is intact: {counted(manifest.turns, 'turn')} of {counted(manifest.chats, 'chat')}."
    )


def _same_sizes(release: Path) -> Manifest:
    """ReleaseRefused for the first file that is missing or has another size; the content is not read."""
    manifest = read_manifest(release)
    for name, expected in manifest.files.items():
        with suppress(OSError):
            if (release / name).stat().st_size == expected["size"]:
                continue
        raise ReleaseRefused(
            f"Release {manifest.run}: {name} is missing or was changed. {REPAIR} Until then hmem release rollback RUN goes back to an intact one."
        )
    return manifest


def _after_a_night(setup: Setup, memory: Path) -> Finding | None:
    """Why there is no release yet though a night has ended well; None if none has, or Redis does not say so."""
    try:
        last = nights_of(setup.redis).good
    except RedisError:  # which other checks name
        return None
    if last is None:
        return None
    if any(one.run == last[0] and one.turns == 0 for one in records_of(setup.redis)):
        return ok(f"There is no release in {memory} yet: at the end of night {last[0]} the archive had no turns.")
    return warning(
        f"There is no release in {memory}, though night {last[0]} has ended well.",
        "Set HMEM_MEMORY_DIR to where the night publishes its releases, or mount that there.",
    )


def _locked(*paths: Path) -> Path | None:
    """The first that exists and that this user may not read."""
    for path in paths:
        rights = os.R_OK | (os.X_OK if path.is_dir() else 0)
        if path.exists() and not os.access(path, rights):
            return path
    return None


def _unreadable(path: Path) -> Finding:
    return problem(
        Fault.MEMORY_UNREADABLE,
        f"{path} may not be read by this user (uid {os.geteuid()}), so nothing can be recalled.",
        "Run dispatcher, night and this command as the same user, or give it the files (sudo chown -R USER).",
    )


def check_pin(setup: Setup) -> Finding:
    """Nights may switch to the releases that they publish."""
    pin = read_pin(setup.settings.hmem_memory_dir)
    if pin is None:
        return ok("No release is pinned: each night switches to its own.")
    fix = "Run hmem release rollback --unpin as soon as the reason for the pin is fixed: the next night then switches and deletes as usual."
    hours = (setup.now() - pin.since) / 3600
    if hours > STALE_HOURS:
        sentence = f"Release {pin.run} has been pinned for {hours:.0f} hours: {since_then(setup.settings)}, and not deleted from Redis."
        return problem(MemoryStale.exit_code, sentence, fix)
    since = zoned_text(pin.since, setup.settings.timezone)
    return warning(
        f"Release {pin.run} is pinned since {since}: nights publish without switching, and delete nothing.", fix
    )
