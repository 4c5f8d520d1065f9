"""Long work of the page: a command in a process of its own, whose output and end are files. It outlives a reload, and a restart of the page.

A job is a folder in HMEM_STATE_DIR/web-jobs: `job.json` (what it is, when it began), `output`, and `exit` with the exit code, which a small
process between us and the command writes; it is locked as long as that lives. Both files are opened by us, since the command may run as the night's
user. The newest KEPT are kept. No output has the words of a chat: previews and exports are not jobs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from dispatcher.releases.night_command import as_ourselves
from shared.config.settings import Settings
from shared.errors import NightRunning
from shared.system.files import make_dir, write_atomic
from shared.system.processes import module_command, of_the_night

FOLDER = "web-jobs"
KEPT = 50
#: Bytes of the end of the output that are shown.
SHOWN_BYTES = 65_536
#: Runs the command that follows, then writes its exit code to the descriptor that is its first argument.
_RUNNER = """
import os, subprocess, sys
code = subprocess.call(sys.argv[2:], close_fds=False)
os.write(int(sys.argv[1]), str(code).encode())
"""
_ID = re.compile(r"[0-9]{13}-[0-9a-f]{8}")


@dataclass(frozen=True)
class PageJob:
    """`chats`: whose words its output may have, None for a job of the whole host; `code` is None while it runs; `lost`: it ended without one."""

    job_id: str
    title: str
    kind: str
    began: float
    chats: list[str] | None
    more: dict[str, Any]
    output: str
    code: int | None
    lost: bool

    @property
    def state(self) -> str:
        if self.code is None:
            return "interrupted" if self.lost else "running"
        return {0: "done", NightRunning.exit_code: "not begun"}.get(self.code, "failed")


def of_day(*arguments: str) -> list[str]:
    """The command line of an `hmem …`: as this page was started, under the same name in the same environment."""
    return [sys.executable, "-P", "-c", "from dispatcher.cli.main import main; main()", *arguments]


class Jobs:
    """Thread-safe: all state is on the disk."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.hmem_state_dir / FOLDER

    def night(self, title: str, kind: str, *arguments: str, **more: Any) -> str:
        """Start an `hmem-night …`, with its credentials and as its user where we may."""
        return self._start(title, kind, module_command("nightly", *arguments), of_the_night(self._settings), None, more)

    def day(
        self, title: str, kind: str, *arguments: str, chats: Sequence[str] | None = None, stdin: str = "", **more: Any
    ) -> str:
        """Start an `hmem …`. `stdin`: words that must not be in the process list."""
        return self._start(title, kind, of_day(*arguments), as_ourselves(), chats, more, stdin.encode())

    def _start(
        self,
        title: str,
        kind: str,
        command: list[str],
        child: AbstractContextManager[dict[str, Any]],
        chats: Sequence[str] | None,
        more: dict[str, Any],
        stdin: bytes = b"",
    ) -> str:
        self.prune()
        job_id = f"{time.time_ns() // 1_000_000:013}-{uuid4().hex[:8]}"
        folder = make_dir(self._folder / job_id)
        record = {"title": title, "kind": kind, "began": time.time(), "chats": chats, "more": more}
        write_atomic(folder / "job.json", orjson.dumps(record))
        process = _begin(folder, command, child, stdin)
        threading.Thread(target=process.wait, daemon=True).start()  # takes its end, so that no zombie stays
        return job_id

    def get(self, job_id: str) -> PageJob | None:
        if not _ID.fullmatch(job_id):
            return None
        folder = self._folder / job_id
        try:
            record = orjson.loads((folder / "job.json").read_bytes())
        except (OSError, ValueError):
            return None
        lives = _lives(folder)  # before its code, which is there when it ends
        code = _code(folder)
        return PageJob(job_id, **record, output=_end_of(folder / "output"), code=code, lost=code is None and not lives)

    def newest(self, number: int = 20) -> list[PageJob]:
        """The newest first."""
        return [job for name in self._names()[: -number - 1 : -1] if (job := self.get(name)) is not None]

    def _names(self) -> list[str]:
        """Their folders, the oldest first."""
        return sorted(path.name for path in self._folder.glob("*-*") if _ID.fullmatch(path.name))

    def running(self, kind: str) -> PageJob | None:
        return next((job for job in self.newest() if job.kind == kind and job.state == "running"), None)

    def prune(self) -> None:
        """Remove the oldest, unless they run."""
        make_dir(self._folder)
        for name in self._names()[:-KEPT]:
            if not _lives(self._folder / name):
                shutil.rmtree(self._folder / name, ignore_errors=True)


def _begin(
    folder: Path, command: list[str], child: AbstractContextManager[dict[str, Any]], stdin: bytes
) -> subprocess.Popen[bytes]:
    """The words on its standard input are there before it begins: it must not take their absence for an answer."""
    words = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        os.write(words, stdin)
        os.lseek(words, 0, os.SEEK_SET)
        with child as arguments, (folder / "output").open("wb") as output, (folder / "exit").open("wb") as ending:
            fcntl.flock(ending, fcntl.LOCK_EX)  # as long as somebody has it open
            descriptors = (*arguments.pop("pass_fds", ()), ending.fileno())
            return subprocess.Popen(
                [sys.executable, "-I", "-c", _RUNNER, str(ending.fileno()), *command],
                stdin=words,
                stdout=output,
                stderr=output,
                start_new_session=True,  # it goes on when the page is stopped
                pass_fds=descriptors,
                **arguments,
            )
    finally:
        os.close(words)


def _lives(folder: Path) -> bool:
    """Whether the small process is there."""
    try:
        with (folder / "exit").open("rb") as ending:
            fcntl.flock(ending, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _code(folder: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((folder / "exit").read_text(encoding="ascii"))
    return None


def _end_of(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - SHOWN_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""
