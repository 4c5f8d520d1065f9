"""Every error that a user can see: one class per cause, with its exit code.

The first line of a class says what happened, the next paragraph what to do; docs/exit-codes.md is generated from both. The message of a
raised error has the same form: one sentence that says what happened and why, and one that says what to do. Exit code 1 is a bug in this
program, 2 wrong usage.
"""

from __future__ import annotations

import inspect
import re


class HmemError(Exception):
    """Base of all expected errors; `exit_code` is the exit code of the command."""

    exit_code = 1


def without_words(error: Exception) -> str:
    """What SQLite says of a fault, without the text of a row, which it quotes where that cannot be decoded."""
    return str(error).partition(" with text ")[0]


#: What a wrong value is told, in place of pydantic's words.
_PLAINER = (
    ("^Value error, ", ""),
    ("Input should be a valid integer.*", "it must be a whole number"),
    ("Input should be a valid number.*", "it must be a number"),
    ("Input should be ", "it must be "),
)


def plain_words(message: str) -> str:
    """What pydantic says of a value, as one would say it."""
    for theirs, ours in _PLAINER:
        message = re.sub(theirs, ours, message)
    return message


class SettingsError(HmemError):
    """A setting is missing or invalid, or names a part that is not installed.

    Correct the setting that the message names, or run scripts/setup --with PART.
    """

    exit_code = 10


class RedisUnavailable(HmemError):
    """Redis does not answer, refuses the connection or a command, is full, or is too old.

    Start or repair Redis, or check REDIS_URL.
    """

    exit_code = 11


class ClaudeUnavailable(HmemError):
    """The Claude CLI cannot be started, or does not do what it is asked.

    Install it, log in, or set CLAUDE_BIN.
    """

    exit_code = 12


class EmbeddingError(HmemError):
    """The embedder is missing, does not answer, uses an unexpected model, or refuses too many texts.

    Install the missing part, start Ollama or pull the model (hmem-night run --pull).
    """

    exit_code = 13


class ArchiveDamaged(HmemError):
    """An archive segment does not match its hash.

    Restore the named segment from a copy, or run hmem-night verify --repair.
    """

    exit_code = 14


class StorageError(HmemError):
    """A disk is full, read-only or failing, a database file is corrupt, or a data directory is a link or writable by others.

    Make room, or repair what the message names; cache.sqlite may be deleted.
    """

    exit_code = 15


class ReleaseRefused(HmemError):
    """A release is incomplete, changed, from another installation, too old, or much smaller than the current one.

    Do what the message says: verify or restore the archive, or run the night again.
    """

    exit_code = 16


class PublishFailed(HmemError):
    """A release could not be transferred to the day host, or no dispatcher loaded it.

    Check rsync, the disk and the dispatcher's log, and run the night again.
    """

    exit_code = 17


class RestartFailed(HmemError):
    """RESTART_COMMAND failed; the release is published and safe.

    Restart the dispatcher by hand and correct the command.
    """

    exit_code = 18


class LeaseLost(HmemError):
    """Another night took over while this one was suspended.

    Run the night again.
    """

    exit_code = 19


class LedgerMismatch(HmemError):
    """The counts of the night do not add up; nothing was deleted.

    Run the night again; if the error persists, report it.
    """

    exit_code = 20


class MemoryStale(HmemError):
    """No night has succeeded for 36 hours, or a release has been pinned that long.

    Check hmem-night status and the night's log, and run the night.
    """

    exit_code = 21


class AnswerTimeout(HmemError):
    """No answer arrived in time.

    Check that hmem run is running.
    """

    exit_code = 22


class ForgedResult(HmemError):
    """All results that arrived had a wrong signature.

    Set the same RESULT_HMAC_KEY on both sides.
    """

    exit_code = 23


class InvalidInput(HmemError):
    """An argument is invalid, or there is no release yet.

    Read the message and correct the argument.
    """

    exit_code = 24


class StepTimeout(HmemError):
    """A step of the night took longer than STEP_TIMEOUT.

    Find out what it waited for (log, Ollama, disk, network).
    """

    exit_code = 25


class MirrorFailed(HmemError):
    """ARCHIVE_MIRROR is not reachable or differs from the archive; nothing was deleted.

    Repair the mirror, run hmem-night verify --repair, and run the night again.
    """

    exit_code = 26


class StoreUnavailable(HmemError):
    """The day store (DAY_STORE_URL) does not answer, or has a newer schema.

    Check its server or disk; answers go on without it, and tags wait in Redis.
    """

    exit_code = 27


class ForgetIncomplete(HmemError):
    """A forgetting is incomplete; the receipt says what is pending, or where words were found.

    Resolve that, then run hmem forget --resume.
    """

    exit_code = 28


class IndexServerUnavailable(HmemError):
    """The server for vectors (Qdrant or Redis) does not answer; the current release stays in use.

    Check the server, and QDRANT_URL or REDIS_VECTORS_URL; run the night again.
    """

    exit_code = 29


class NoDispatcher(HmemError):
    """No dispatcher is running, so messages are not answered.

    Start hmem run; if it stops again, its log says why.
    """

    exit_code = 42


class QueueStalled(HmemError):
    """A dispatcher runs but has taken nothing from the queue for 5 seconds.

    Restart it and check its log.
    """

    exit_code = 43


class InstallationIncomplete(HmemError):
    """`hmem init` or `hmem-night join` could not finish a step.

    Do what the message says and rerun the command: it resumes there.
    """

    exit_code = 47


class FormatNewer(HmemError):
    """A newer version of this program wrote these data; nothing was changed.

    Install that version here, too.
    """

    exit_code = 51


class AnswerFailed(HmemError):
    """Claude failed, or the message was refused, cancelled or forgotten.

    Do what the message says; see the dispatcher's log and hmem doctor.
    """

    exit_code = 69


class NightRunning(HmemError):
    """Another night holds the lock or the lease.

    Try again later.
    """

    exit_code = 75


def exit_codes() -> dict[int, str]:
    """Exit code → class name, of every error."""
    return {cls.exit_code: cls.__name__ for cls in HmemError.__subclasses__()}


def explanations() -> dict[int, tuple[str, str]]:
    """Exit code → (what happened, what to do)."""
    texts = {cls.exit_code: inspect.getdoc(cls) or "" for cls in HmemError.__subclasses__()}
    return {code: (text.partition("\n\n")[0], text.partition("\n\n")[2]) for code, text in texts.items()}
