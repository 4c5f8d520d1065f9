"""What a check of `hmem doctor` looks at and what it answers, and the exit codes that are the doctor's own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from redis import Redis

from shared.config.settings import Settings
from shared.errors import HmemError


class Fault(IntEnum):
    """Exit codes of faults that no error of the program stands for. Each has its row in ARCHITECTURE.md, under `label`."""

    REDIS_RIGHTS = 30
    EVICTION_POLICY = 31
    PERSISTENCE = 32
    CLOCK = 33
    CLAUDE_TOO_OLD = 34
    CLAUDE_LOGIN = 35
    EMBEDDER_DIFFERS = 36
    MEMORY_MISSING = 37
    MEMORY_UNREADABLE = 38
    STATE_DIRECTORY = 39
    DISK_NEARLY_FULL = 40
    BOT_AWAY = 41
    METRICS_AWAY = 44
    NIGHT_FAILED = 45
    DEAD_LETTERS = 46

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", " ")


class Usage(Protocol):
    """Bytes of a file system, as shutil.disk_usage answers them."""

    @property
    def total(self) -> int: ...
    @property
    def free(self) -> int: ...


@dataclass(frozen=True)
class Setup:
    """All that a check may look at. Clock and disks are parameters, because a test cannot turn the real ones."""

    settings: Settings
    redis: Redis
    now: Callable[[], float] = time.time
    disk_usage: Callable[[Path], Usage] = shutil.disk_usage


@dataclass(frozen=True)
class Finding:
    """One check's answer: what is and why it matters, and what to do. `code` is 0 unless `state` is "problem"."""

    state: Literal["ok", "warning", "problem", "skipped"]
    sentence: str
    fix: str = ""
    code: int = 0
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ok(sentence: str) -> Finding:
    return Finding("ok", sentence)


def warning(sentence: str, fix: str) -> Finding:
    return Finding("warning", sentence, fix)


def problem(code: int, sentence: str, fix: str) -> Finding:
    return Finding("problem", sentence, fix, int(code))


def skipped(sentence: str, fix: str = "") -> Finding:
    return Finding("skipped", sentence, fix)


def of_error(error: HmemError) -> Finding:
    """An error's text ends with the sentence that says what to do."""
    sentence, _, fix = str(error).replace("..", ".").strip().rpartition(". ")
    if not sentence:
        sentence, fix = fix, "ARCHITECTURE.md says what to do under this exit code."
    return problem(error.exit_code, sentence.rstrip(".") + ".", fix)
