"""Publish: bring the release to the day host, prove it there, try it, switch to it in one step, and see that it is served.

    seal ─ rsync to incoming/<run>.<attempt> ─ verify ─ rename to releases/<run> ─ try in a throw-away process ─ switch ─ served?

Up to the switch a failure leaves `current` as it was; after it, `current` is put back. The release must descend from the current one
(same parent as when the night began, all of its segments) and may shrink a chat only where a tombstone says so. A killed attempt
is repeated from the start in a new incoming directory; a release that stands there whole already is not transferred again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from nightly.chunking import CHUNKER_VERSION
from nightly.extract import SUMMARY_VERSION
from nightly.night import Night
from shared import keys
from shared.embedding import EmbeddingIdentity
from shared.errors import PublishFailed, ReleaseRefused
from shared.files import fresh_dir, fsync_dir, fsync_tree, make_dir, remove_tree, switch_link
from shared.release import Manifest, current_release, read_manifest, release_dir, seal, verify

#: Seconds for the transfer and for the throw-away process.
TRANSFER_TIMEOUT_SECONDS = 3600
TRYOUT_TIMEOUT_SECONDS = 300
SERVED_POLL_SECONDS = 0.2


def run(night: Night, out: Path) -> dict[str, Any]:
    target = make_dir(night.settings.target_dir)
    make_dir(target / "releases")
    stage = out / "release"
    _gather(night, stage)
    manifest = seal(stage, _manifest(night))
    before = current_release(target)
    if before is None or read_manifest(before).run != night.run:
        _refuse_unless_descendant(manifest, read_manifest(before) if before else None, night)
    release = _bring(night, stage, target)
    night.crash_point("publish:renamed")
    _try_out(night, release)
    night.lease.check()
    _switch(night, target)
    removed = _prune(night, target)
    return {
        "release": str(release),
        "files": len(manifest.files),
        "bytes": sum(f["size"] for f in manifest.files.values()),
        "removed": removed,
    }


def _gather(night: Night, stage: Path) -> None:
    """The release in one directory, as links to the files that the steps have made (nobody writes to those again)."""
    fresh_dir(stage)
    for step in ("build", "summarise"):
        shutil.copytree(
            night.output(step),
            stage,
            copy_function=os.link,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("result.json"),
        )


def _manifest(night: Night) -> Manifest:
    chunks, embedding = night.result("chunk"), night.result("embed")["embedding"]
    return Manifest(
        run=night.run,
        parent=night.parent,
        segments=chunks["segments"],
        chunker_version=CHUNKER_VERSION,
        summary_version=SUMMARY_VERSION,
        timezone=night.settings.chat_timezone,
        indexes=night.result("build")["indexes"],
        embedding=EmbeddingIdentity.from_json(embedding) if embedding else None,
        turns_per_chat=chunks["turns_per_chat"],
        chunks_per_chat=chunks["chunks_per_chat"],
        tombstones=chunks["tombstones"],
        ledger=night.result("archive")["ledger"],
    )


def _refuse_unless_descendant(new: Manifest, current: Manifest | None, night: Night) -> None:
    """The refusals that keep memory from shrinking by accident."""
    if (current.run if current else None) != new.parent:
        raise ReleaseRefused(
            f"The current release is {current.run if current else 'none'}, but this night began from {new.parent or 'none'}. "
            "Another night host published meanwhile. Run the night again; it starts from what is current."
        )
    if current is None:
        return
    if new.run <= current.run:
        raise ReleaseRefused(f"Run {new.run} is not above the current release's {current.run}. Run the night again.")
    for name, sha256 in current.segments.items():
        if new.segments.get(name) != sha256:
            raise ReleaseRefused(
                f"The current release holds {name}, which this night host's archive lacks or holds differently. "
                f"Restore {night.archive_dir} from its copy before the next night; nothing was published."
            )
    _refuse_shrinking(new, current)


def _refuse_shrinking(new: Manifest, current: Manifest) -> None:
    forgotten = {chat for stone, chat in new.tombstones.items() if stone not in current.tombstones}
    for chat, turns in current.turns_per_chat.items():
        if new.turns_per_chat.get(chat, 0) < turns and chat not in forgotten:
            raise ReleaseRefused(
                f"A chat would shrink from {turns} to {new.turns_per_chat.get(chat, 0)} turns though nothing was forgotten. "
                "Verify the archive (hmem-night verify); nothing was published."
            )


def _bring(night: Night, stage: Path, target: Path) -> Path:
    """The verified release in its place on the day host."""
    release = release_dir(target, night.run)
    if release.is_dir():
        try:
            if verify(release).recipe() == read_manifest(stage).recipe():
                return release  # a killed attempt got this far
        except ReleaseRefused:
            pass
        remove_tree(release)  # never current: its run is this night's
    incoming = _incoming(target, night.run)
    _transfer(stage, incoming)
    night.crash_point("publish:transferred")
    verify(incoming)
    fsync_tree(incoming)
    incoming.rename(release)
    fsync_dir(release.parent)
    for left in (target / "incoming").iterdir():  # earlier attempts: we hold the lease, so nobody writes there
        remove_tree(left)
    return release


def _incoming(target: Path, run: int) -> Path:
    """A directory that no attempt has used."""
    parent = make_dir(target / "incoming")
    attempt = 1
    while (parent / f"{run}.{attempt}").exists():
        attempt += 1
    return make_dir(parent / f"{run}.{attempt}")


def _transfer(source: Path, destination: Path) -> None:
    command = ["rsync", "--recursive", "--times", "--checksum", "--perms", f"{source}/", f"{destination}/"]
    done = _run(command, TRANSFER_TIMEOUT_SECONDS, "rsync")
    if done.returncode != 0:
        raise PublishFailed(
            f"rsync ended with code {done.returncode}: {_last_line(done)}. Mend that and run the night again."
        )


def _try_out(night: Night, release: Path) -> None:
    """Open the release and ask it something in a process that may die of it (a damaged index ends in a segmentation fault)."""
    with tempfile.TemporaryDirectory(prefix="hmem-tryout-") as state:
        done = _run(
            [sys.executable, "-m", "shared.tryout", str(release), state],
            TRYOUT_TIMEOUT_SECONDS,
            "the trial of the release",
        )
    if done.returncode != 0:
        how = f"died by signal {-done.returncode}" if done.returncode < 0 else _last_line(done)
        raise ReleaseRefused(
            f"Release {night.run} was tried on this host and failed: {how}. It is not current. Run the night again."
        )


def _run(command: list[str], timeout: float, what: str) -> subprocess.CompletedProcess[str]:
    """Run a child in a process group of its own, so that nothing of it outlives the time limit."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
    except FileNotFoundError as error:
        raise PublishFailed(f"{command[0]} is not installed. Install it (scripts/setup does).") from error
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise PublishFailed(
            f"{what} did not end within {timeout:g} s. Look at disk and network, then run the night again."
        ) from error
    finally:
        if process.returncode is None:  # too slow, or we are being stopped: nothing of it may write on
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout or "").strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"


def _switch(night: Night, target: Path) -> None:
    """The commit point. A dispatcher that does not take the release up within its time is a failure: then back."""
    switch_link(target / "current", f"releases/{night.run}")
    night.crash_point("publish:switched")
    try:
        _wait_until_served(night)
    except PublishFailed:
        if night.parent is None:
            (target / "current").unlink()
        else:
            switch_link(target / "current", f"releases/{night.parent}")
        raise


def _wait_until_served(night: Night) -> None:
    """Every dispatcher that lives must report this run."""
    deadline = time.monotonic() + night.settings.publish_wait
    while late := _behind(night):
        if time.monotonic() > deadline:
            raise PublishFailed(
                f"Dispatcher {late[0]} did not take up release {night.run} within {night.settings.publish_wait:g} s; switched back. "
                "Look at its log, and that its HMEM_MEMORY_DIR is the night's PUBLISH_TARGET."
            )
        time.sleep(SERVED_POLL_SECONDS)


def _behind(night: Night) -> list[str]:
    served = cast(dict[bytes, bytes], night.redis.hgetall(keys.RELEASE))
    workers = cast(set[bytes], night.redis.smembers(keys.WORKERS))
    alive = [w for w in workers if night.redis.exists(keys.lease(w.decode("utf-8", "replace")))]
    return [w.decode("utf-8", "replace") for w in alive if int(served.get(w, b"0")) != night.run]


def _prune(night: Night, target: Path) -> list[int]:
    """Keep the newest releases for rollback; never remove the current one or its parent."""
    runs = sorted((int(p.name) for p in (target / "releases").iterdir() if p.name.isdigit()), reverse=True)
    kept = {*runs[: night.settings.releases_kept], night.run, night.parent}
    removed = [run for run in runs if run not in kept]
    for old in removed:
        remove_tree(release_dir(target, old))
    return removed
