"""Long work of the page: a command in a process of its own, which goes on when the page is closed or stopped.

A job, and what its command printed (a file without a name), are there as long as this page runs; the newest KEPT are kept. What came of it stands
in the records of its command: nights, receipts, releases. No output has the words of a chat: previews and exports are not jobs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from dispatcher.releases.night_command import as_ourselves
from shared.config.settings import Settings
from shared.errors import NightRunning
from shared.system.processes import day_command, module_command, of_the_night

KEPT = 50
#: Bytes of the end of the output that are shown.
SHOWN_BYTES = 65_536


@dataclass(frozen=True)
class PageJob:
    """`chats`: whose words its output may have, None for a job of the whole host; `file`: the upload that it imports."""

    process: subprocess.Popen[bytes]
    printed: IO[bytes]
    title: str
    kind: str
    chats: Sequence[str] | None = None
    file: Path | None = None
    job_id: str = field(default_factory=lambda: uuid4().hex)
    began: float = field(default_factory=time.time)

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self.process.returncode

    @property
    def state(self) -> str:
        if self.code is None:
            return "running"
        return {0: "done", NightRunning.exit_code: "not begun"}.get(self.code, "failed")

    @property
    def output(self) -> str:
        size = os.fstat(self.printed.fileno()).st_size
        return os.pread(self.printed.fileno(), SHOWN_BYTES, max(0, size - SHOWN_BYTES)).decode("utf-8", "replace")


class Jobs:
    """Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._jobs: dict[str, PageJob] = {}

    def night(self, title: str, *arguments: str, file: Path | None = None) -> str:
        """Start an `hmem-night …`, with its credentials and as its user where we may; returns the job's id."""
        command = module_command("nightly", *arguments)
        return self._start(command, of_the_night(self._settings), title=title, kind="night", file=file)

    def day(self, title: str, kind: str, *arguments: str, chats: Sequence[str] | None = None, stdin: str = "") -> str:
        """Start an `hmem …`; returns the job's id. `stdin`: words that must not be in the process list."""
        return self._start(day_command(*arguments), as_ourselves(), stdin, title=title, kind=kind, chats=chats)

    def _start(
        self, command: list[str], child: AbstractContextManager[dict[str, Any]], stdin: str = "", **of_job: Any
    ) -> str:
        """The words on its standard input are there before it begins: it must not take their absence for an answer."""
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the job goes
        with os.fdopen(os.memfd_create("words"), "w+b") as words, child as arguments:
            words.write(stdin.encode())
            words.seek(0)
            process = subprocess.Popen(
                command, stdin=words, stdout=printed, stderr=printed, start_new_session=True, **arguments
            )
        threading.Thread(target=process.wait, daemon=True).start()  # takes its end, so that no zombie stays
        job = PageJob(process, printed, **of_job)
        self._jobs[job.job_id] = job
        for old in self.newest(len(self._jobs))[KEPT:]:
            if old.state != "running":
                self._jobs.pop(old.job_id, old).printed.close()
        return job.job_id

    def close(self) -> None:
        """What runs goes on."""
        for job in self._jobs.values():
            job.printed.close()

    def get(self, job_id: str) -> PageJob | None:
        return self._jobs.get(job_id)

    def newest(self, number: int = 20) -> list[PageJob]:
        """The newest first."""
        return list(self._jobs.values())[: -number - 1 : -1]

    def running(self, kind: str) -> PageJob | None:
        return next((job for job in self.newest(KEPT) if job.kind == kind and job.state == "running"), None)
