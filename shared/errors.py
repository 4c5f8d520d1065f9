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

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        """That of the class above, unless it has its own."""
        cls.exit_code = exit_code or cls.exit_code


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


class SettingsError(HmemError, exit_code=10):
    """A setting is missing or invalid, or names a part that is not installed.

    Correct the setting that the message names, or run scripts/setup --with PART.
    """


class RedisUnavailable(HmemError, exit_code=11):
    """Redis does not answer, refuses the connection or a command, is full, or is too old.

    Start or repair Redis, or check REDIS_URL.
    """


class ClaudeUnavailable(HmemError, exit_code=12):
    """The Claude CLI cannot be started, or does not do what it is asked.

    Install it, log in, or set CLAUDE_BIN.
    """


class EmbeddingError(HmemError, exit_code=13):
    """The embedder is missing, does not answer, uses an unexpected model, or refuses too many texts.

    Install the missing part, start Ollama or pull the model (hmem-night run --pull).
    """


class ArchiveDamaged(HmemError, exit_code=14):
    """An archive segment does not match its hash.

    Restore the named segment from a copy, or run hmem-night verify --repair.
    """


class StorageError(HmemError, exit_code=15):
    """A disk is full, read-only or failing, a database file is corrupt, or a data directory is a link or writable by others.

    Make room, or repair what the message names; cache.sqlite may be deleted.
    """


class ReleaseRefused(HmemError, exit_code=16):
    """A release is incomplete, changed, from another installation, too old, or much smaller than the current one.

    Do what the message says: verify or restore the archive, or run the night again.
    """


class PublishFailed(HmemError, exit_code=17):
    """A release could not be transferred to the day host, or no dispatcher loaded it.

    Check rsync, the disk and the dispatcher's log, and run the night again.
    """


class RestartFailed(HmemError, exit_code=18):
    """RESTART_COMMAND failed; the release is published and safe.

    Restart the dispatcher by hand and correct the command.
    """


class LeaseLost(HmemError, exit_code=19):
    """Another night took over while this one was suspended.

    Run the night again.
    """


class LedgerMismatch(HmemError, exit_code=20):
    """The counts of the night do not add up; nothing was deleted.

    Run the night again; if the error persists, report it.
    """


class MemoryStale(HmemError, exit_code=21):
    """No night has succeeded for 36 hours, or a release has been pinned that long.

    Check hmem-night status and the night's log, and run the night.
    """


class AnswerTimeout(HmemError, exit_code=22):
    """No answer arrived in time.

    Check that hmem run is running.
    """


class ForgedResult(HmemError, exit_code=23):
    """All results that arrived had a wrong signature.

    Set the same RESULT_HMAC_KEY on both sides.
    """


class InvalidInput(HmemError, exit_code=24):
    """An argument is invalid, or there is no release yet.

    Read the message and correct the argument.
    """


class StepTimeout(HmemError, exit_code=25):
    """A step of the night took longer than STEP_TIMEOUT.

    Find out what it waited for (log, Ollama, disk, network).
    """


class MirrorFailed(HmemError, exit_code=26):
    """ARCHIVE_MIRROR is not reachable or differs from the archive; nothing was deleted.

    Repair the mirror, run hmem-night verify --repair, and run the night again.
    """


class StoreUnavailable(HmemError, exit_code=27):
    """The day store (DAY_STORE_URL) does not answer, or has a newer schema.

    Check its server or disk; answers go on without it, and tags wait in Redis.
    """


class ForgetIncomplete(HmemError, exit_code=28):
    """A forgetting is incomplete; the receipt says what is pending, or where words were found.

    Resolve that, then run hmem forget --resume.
    """


class IndexServerUnavailable(HmemError, exit_code=29):
    """The server for vectors (Qdrant or Redis) does not answer; the current release stays in use.

    Check the server, and QDRANT_URL or REDIS_VECTORS_URL; run the night again.
    """


class NoDispatcher(HmemError, exit_code=42):
    """No dispatcher is running, so messages are not answered.

    Start hmem run; if it stops again, its log says why.
    """


class QueueStalled(HmemError, exit_code=43):
    """A dispatcher runs but has taken nothing from the queue for 5 seconds.

    Restart it and check its log.
    """


class InstallationIncomplete(HmemError, exit_code=47):
    """`hmem init` or `hmem-night join` could not finish a step.

    Do what the message says and rerun the command: it resumes there.
    """


class FormatNewer(HmemError, exit_code=51):
    """A newer version of this program wrote these data; nothing was changed.

    Install that version here, too.
    """


class AnswerFailed(HmemError, exit_code=69):
    """Claude failed, or the message was refused, cancelled or forgotten.

    Do what the message says; see the dispatcher's log and hmem doctor.
    """


class NightRunning(HmemError, exit_code=75):
    """Another night holds the lock or the lease.

    Try again later.
    """


def exit_codes() -> dict[int, str]:
    """Exit code → class name, of every error."""
    return {cls.exit_code: cls.__name__ for cls in HmemError.__subclasses__()}


def explanations() -> dict[int, tuple[str, str]]:
    """Exit code → (what happened, what to do)."""
    texts = {cls.exit_code: inspect.getdoc(cls) or "" for cls in HmemError.__subclasses__()}
    return {code: (text.partition("\n\n")[0], text.partition("\n\n")[2]) for code, text in texts.items()}
