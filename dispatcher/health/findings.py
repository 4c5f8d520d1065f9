"""What a check gets and returns, and the exit codes of faults without an error of their own. doctor.py has the list of checks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from redis import Redis

from shared.config.settings import Settings
from shared.errors import HmemError


class Fault(IntEnum):
    """Exit codes of faults without an error class of their own: what each means, and below it what to do (docs/exit-codes.md).

    REDIS_RIGHTS: The Redis user lacks rights that the dispatcher needs.
        Run the ACL SETUSER line that is printed.
    EVICTION_POLICY: maxmemory-policy is not noeviction: Redis would drop turns, sessions or marks silently.
        CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE.
    PERSISTENCE: Redis writes no append-only file, failed to write it, or could not replay it all: a restart would lose turns.
        CONFIG SET appendonly yes, then CONFIG REWRITE; check Redis' disk; hmem init renews the rights of its users.
    CLOCK: This host's clock and Redis' differ by more than 60 s.
        Enable time synchronisation.
    CLAUDE_TOO_OLD: The Claude CLI is older than 2.1.197, the oldest version tested.
        Install a newer one.
    CLAUDE_LOGIN: The CLI is not logged in (claude auth status).
        Log in as the dispatcher's user.
    EMBEDDER_DIFFERS: The day's embedder makes other vectors than the release has.
        Set the same EMBEDDER and EMBED_MODEL on both hosts, or run the night.
    MEMORY_MISSING: HMEM_MEMORY_DIR does not exist.
        Set, mount or create it.
    MEMORY_UNREADABLE: This user may not read HMEM_MEMORY_DIR, or the release in it.
        Give the directory to the dispatcher's group, or use one user for all; chown.
    STATE_DIRECTORY: HMEM_STATE_DIR, or a directory in it, cannot be written.
        Create it for the dispatcher's user; chown.
    DISK_NEARLY_FULL: A disk has less than 5 % and less than 1 GiB left (15 % is a warning).
        Free space on the disks of the state, memory and night directories.
    BOT_NOT_RUNNING: TELEGRAM_BOT_TOKEN is set, but is not a token, or no bot is running.
        Correct it; start hmem telegram and check its log.
    NIGHT_FAILED: A night has failed since the last good one.
        hmem-night status, then hmem-night run.
    DEAD_LETTERS: Some messages could not be processed.
        hmem dead, then hmem dead --retry or hmem dead --drop.
    """

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
    BOT_NOT_RUNNING = 41
    NIGHT_FAILED = 45
    DEAD_LETTERS = 46


@dataclass(frozen=True)
class Setup:
    """Everything that a check may use. Clock and disks are parameters, because a test cannot change the real ones; `disk_usage` returns what shutil's
    does. `thorough`: read whole files."""

    settings: Settings
    redis: Redis
    now: Callable[[], float] = time.time
    disk_usage: Callable[[Path], Any] = shutil.disk_usage
    thorough: bool = True


@dataclass(frozen=True)
class Finding:
    """The result of one check: what it found and why it matters, and what to do. `code` is 0 unless `state` is "problem".

    `cause`: the owner is alarmed again at once when it changes.
    """

    state: Literal["ok", "warning", "problem", "skipped"]
    sentence: str
    fix: str = ""
    code: int = 0
    name: str = ""
    cause: str = ""


def ok(sentence: str) -> Finding:
    return Finding("ok", sentence)


def warning(sentence: str, fix: str) -> Finding:
    return Finding("warning", sentence, fix)


def problem(code: int, sentence: str, fix: str, cause: str = "") -> Finding:
    return Finding("problem", sentence, fix, int(code), cause=cause)


def skipped(sentence: str, fix: str = "") -> Finding:
    return Finding("skipped", sentence, fix)


def of_error(error: HmemError) -> Finding:
    """The last sentence of an error's text says what to do."""
    sentence, _, fix = str(error).replace("..", ".").strip().rpartition(". ")
    if not sentence:
        sentence, fix = fix, "See this exit code in docs/exit-codes.md."
    return problem(error.exit_code, sentence.rstrip(".") + ".", fix)


@dataclass(frozen=True)
class Check:
    """One check of the doctor, of the alarms, and of `hmem status`.

    `needs`: names of checks that must not have failed. `alarm`: the finding from which on the owner is told at once; `morning`: the morning report
    names a problem or warning, as it does an alarm; `status`: `hmem status` ends with its problem.
    """

    name: str
    run: Callable[[Setup], Finding]
    needs: tuple[str, ...] = ()
    alarm: Literal["", "warning", "problem"] = ""
    morning: bool = False
    status: bool = False
