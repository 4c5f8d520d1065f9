"""What the day host does with a release that is brought to it. Four verbs; each may be repeated.

    begin [RUN]           says which release is current; with a run, makes an empty incoming/<run>.<attempt>
    verify RUN ATTEMPT    re-hashes it, refuses what may not follow the current release, tries it out, renames it into releases/;
                          attempt 0 re-hashes releases/<run> where it stands
    switch RUN TOKEN      points `current` at it, if the night that asks still holds the lease
    rollback RUN          points `current` back at that release's parent, if it is current

One verb at a time, by a lock on the directory. `current` moves nowhere else. A night on this host calls the functions; one elsewhere
comes through ssh, where a forced command hands the request to `python -m shared.receiver "$SSH_ORIGINAL_COMMAND"` (deploy/hmem-receive):
the whole line must match one verb.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson
from redis import Redis

from shared import keys
from shared.command import translate
from shared.errors import InvalidInput, LeaseLost, ReleaseRefused
from shared.files import fsync_dir, fsync_tree, locked_dir, make_dir, remove_tree, switch_link
from shared.processes import last_line, run_bounded
from shared.release import Manifest, current_release, read_manifest, release_dir, verify
from shared.settings import Settings, load_settings

#: Seconds for the throw-away process.
TRYOUT_TIMEOUT_SECONDS = 300
TRYOUT_MODULE = "shared.tryout"

_REQUEST = re.compile(r"(begin)(?: ([0-9]{1,9}))?|(verify|switch) ([0-9]{1,9}) ([0-9]{1,12})|(rollback) ([0-9]{1,9})")


Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """Hold the lock of the memory directory while a verb runs: a second caller waits."""

    @wraps(method)
    def locked(self: Receiver, *arguments: Any) -> Any:
        with locked_dir(make_dir(self.directory)):
            return method(self, *arguments)

    return cast(Method, locked)


class Receiver:
    """The verbs, on one memory directory."""

    def __init__(self, settings: Settings, memory_dir: Path) -> None:
        self._settings, self._dir = settings, memory_dir

    @property
    def directory(self) -> Path:
        return self._dir

    def current(self) -> Manifest | None:
        path = current_release(self._dir)
        return read_manifest(path) if path else None

    @_one_at_a_time
    def begin(self, run: int) -> int:
        """Attempt number of an empty incoming directory; the place of this run in releases/ is cleared."""
        current = self.current()
        if current is not None and run <= current.run:
            raise ReleaseRefused(f"Run {run} is not above the current release's {current.run}. Run the night again.")
        make_dir(self._dir / "releases")
        remove_tree(release_dir(self._dir, run))  # never current, by the line above
        self._prune(run, current)
        parent = make_dir(self._dir / "incoming")
        used = [int(p.suffix[1:]) for p in parent.glob(f"{run}.*") if p.suffix[1:].isdigit()]
        # Never a name that a stray rsync may still write to, also when it is removed by then.
        attempt = max([int(time.time()), *(number + 1 for number in used)])
        for left in parent.iterdir():
            remove_tree(left)
        make_dir(parent / f"{run}.{attempt}")
        return attempt

    @_one_at_a_time
    def verify(self, run: int, attempt: int) -> Path:
        """The release under its name, whole, allowed and tried; nothing is switched yet."""
        if attempt == 0:
            verify(release_dir(self._dir, run))
            return release_dir(self._dir, run)
        incoming, release = self._dir / "incoming" / f"{run}.{attempt}", release_dir(self._dir, run)
        manifest = verify(incoming)
        if manifest.run != run:
            raise ReleaseRefused(
                f"The release that was brought as run {run} calls itself {manifest.run}. Run the night again."
            )
        refuse_unless_descendant(manifest, self.current())
        self._try_out(incoming)  # only what passed may ever be named a release
        fsync_tree(incoming)
        incoming.rename(release)
        fsync_dir(release.parent)
        fsync_dir(incoming.parent)
        return release

    @_one_at_a_time
    def switch(self, run: int, token: int, client: Redis) -> None:
        """The commit point."""
        release = release_dir(self._dir, run)
        refuse_unless_descendant(read_manifest(release), self.current())
        owner = cast(bytes | None, client.get(keys.NIGHT_OWNER)) or b""
        if owner.split(b" ")[0] != str(token).encode():
            raise LeaseLost(
                "Another night took the lease while this one was stopped; not switched. Run the night again."
            )
        switch_link(self._dir / "current", f"releases/{run}")

    @_one_at_a_time
    def rollback(self, run: int) -> None:
        """Undo a switch to this run; nothing if it is not current."""
        current = self.current()
        if current is None or current.run != run:
            return
        if current.parent is None:
            (self._dir / "current").unlink()
            fsync_dir(self._dir)
        else:
            read_manifest(release_dir(self._dir, current.parent))  # better the new one than none
            switch_link(self._dir / "current", f"releases/{current.parent}")

    def _try_out(self, release: Path) -> None:
        """Open the release and ask it something in a process that may die of it (a damaged index ends in a segmentation fault)."""
        with tempfile.TemporaryDirectory(prefix="hmem-tryout-") as state:
            command = [sys.executable, "-m", TRYOUT_MODULE, str(release), state]
            try:
                done = run_bounded(command, TRYOUT_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise ReleaseRefused(
                    f"Release {release.name} did not answer within {TRYOUT_TIMEOUT_SECONDS} s."
                ) from error
        if done.returncode != 0:
            how = f"the process died by signal {-done.returncode}" if done.returncode < 0 else last_line(done)
            raise ReleaseRefused(
                f"Release {release.name} was tried on the day host and failed: {how}. Run the night again."
            )

    def _prune(self, coming: int, current: Manifest | None) -> None:
        """Keep the newest releases for rollback, the coming one counted, and always the current one, which is the coming one's parent."""
        runs = sorted((int(p.name) for p in (self._dir / "releases").iterdir() if p.name.isdigit()), reverse=True)
        kept = {*runs[: self._settings.releases_kept - 1], current.run if current else coming}
        for run in set(runs) - kept:
            remove_tree(release_dir(self._dir, run))


def refuse_unless_descendant(new: Manifest, current: Manifest | None) -> None:
    """The refusals that keep memory from shrinking by accident. A release follows itself (a switch that is repeated)."""
    if current is not None and current.run == new.run:
        return
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
                "Restore the archive from its copy before the next night; nothing was published."
            )
    _refuse_shrinking(new, current)


def _refuse_shrinking(new: Manifest, current: Manifest) -> None:
    """Turns that may be recalled plus turns that a tombstone covers never become fewer, chat by chat."""
    for chat, turns in current.turns_per_chat.items():
        before = turns + current.forgotten_per_chat.get(chat, 0)
        now = new.turns_per_chat.get(chat, 0) + new.forgotten_per_chat.get(chat, 0)
        if now < before:
            raise ReleaseRefused(
                f"A chat would shrink from {before} to {now} turns though nothing was forgotten. "
                "Verify the archive (hmem-night verify); nothing was published."
            )


def handle(settings: Settings, request: str) -> dict[str, Any]:
    """Carry out one request of the night host; anything but a verb with its numbers is refused."""
    match = _REQUEST.fullmatch(request)
    if match is None:
        raise InvalidInput(
            "This key may ask for: begin [RUN], verify RUN ATTEMPT, switch RUN TOKEN, rollback RUN. Nothing else."
        )
    verb, *numbers = [group for group in match.groups() if group is not None]
    arguments = [int(number) for number in numbers]
    receiver = Receiver(settings, settings.hmem_memory_dir)
    if verb == "begin":
        current = receiver.current()
        attempt = receiver.begin(arguments[0]) if arguments else None
        return {"current": orjson.loads(current.to_json()) if current else None, "attempt": attempt}
    if verb == "verify":
        receiver.verify(*arguments)
    elif verb == "switch":
        with Redis.from_url(settings.redis_url, socket_timeout=30, socket_connect_timeout=10) as client:
            receiver.switch(arguments[0], arguments[1], client)
    else:
        receiver.rollback(*arguments)
    return {}


def main() -> int:
    """Answers JSON on standard output; an error is its sentence on standard error and its exit code."""
    try:
        sys.stdout.buffer.write(orjson.dumps(handle(load_settings(), sys.argv[1] if len(sys.argv) == 2 else "")))
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        sys.stderr.write(f"{ours}\n")
        return ours.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
