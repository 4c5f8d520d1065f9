"""Every error that a person may meet: one class for each cause, with its exit code.

The first line of a class says what happened, the next paragraph what to do; docs/exit-codes.md is made from both. The text of an
error that is raised has the same form: one sentence of what happened and why, and one of what to do. Exit code 1 is a defect of ours,
2 wrong usage.
"""

from __future__ import annotations

import inspect


class HmemError(Exception):
    """Base of all errors that are expected; `exit_code` is what a command ends with."""

    exit_code = 1


class SettingsError(HmemError):
    """A setting is missing or wrong, or names a part that is not installed.

    Correct the setting that the sentence names, or run scripts/setup --with PART.
    """

    exit_code = 10


class RedisUnavailable(HmemError):
    """Redis does not answer, refuses, is full or is too old.

    Start or repair Redis, check REDIS_URL, and run the command again.
    """

    exit_code = 11


class ClaudeUnavailable(HmemError):
    """The Claude CLI cannot be started.

    Install it, log in, or set CLAUDE_BIN.
    """

    exit_code = 12


class EmbeddingError(HmemError):
    """The embedder is missing, does not answer, is not the model it should be, or refuses too many texts.

    Install the part, start Ollama or fetch the model (hmem-night run --pull), and run the command again.
    """

    exit_code = 13


class ArchiveDamaged(HmemError):
    """An archive segment fails its own hash.

    Restore the named segment from a copy, or run hmem-night verify --repair.
    """

    exit_code = 14


class StorageError(HmemError):
    """A disk is full, read-only or failing, a database file is broken, or a directory of ours is a link or may be written by others.

    Repair the disk, remove the link or the permission, and run the command again; cache.sqlite may be deleted.
    """

    exit_code = 15


class ReleaseRefused(HmemError):
    """A release is incomplete, changed, foreign, or older or smaller than it may be.

    Read the sentence; then verify or restore the archive, or run the night again.
    """

    exit_code = 16


class PublishFailed(HmemError):
    """A release could not be brought to the day host, or no dispatcher took it up.

    Look at rsync, the disk and the dispatcher's log, and run the night again.
    """

    exit_code = 17


class RestartFailed(HmemError):
    """RESTART_COMMAND failed; memory is published and safe.

    Restart the dispatcher by hand and correct the command.
    """

    exit_code = 18


class LeaseLost(HmemError):
    """Another night took over while this one was stopped.

    Run the night again.
    """

    exit_code = 19


class LedgerMismatch(HmemError):
    """The counts of the night do not add up; nothing was deleted.

    Run the night again; if the error stays, report it.
    """

    exit_code = 20


class MemoryStale(HmemError):
    """No night has succeeded for 36 hours, a pin is older than that, or the release cannot be read.

    Look at hmem-night status and its log, and run the night.
    """

    exit_code = 21


class AnswerTimeout(HmemError):
    """No answer came in time.

    Check that hmem run is running.
    """

    exit_code = 22


class ForgedResult(HmemError):
    """Only results came that the dispatcher has not signed.

    Give both sides the same RESULT_HMAC_KEY.
    """

    exit_code = 23


class InvalidInput(HmemError):
    """An argument cannot be used, or there is no release yet.

    Read the sentence and correct the argument.
    """

    exit_code = 24


class StepTimeout(HmemError):
    """A step of the night took longer than STEP_TIMEOUT.

    Look at what it waited for (log, Ollama, disk, network), and run the night again.
    """

    exit_code = 25


class MirrorFailed(HmemError):
    """ARCHIVE_MIRROR cannot be reached or holds something else; nothing was deleted.

    Repair the mirror, run hmem-night verify --repair, and run the night again.
    """

    exit_code = 26


class StoreUnavailable(HmemError):
    """The store of the day (MEDIUM_URL) does not answer, refuses, or is newer than the program.

    Look at its server or disk; answers go on without it, and tags wait in Redis.
    """

    exit_code = 27


class ForgetIncomplete(HmemError):
    """Something is not forgotten everywhere yet; the receipt says what is pending or where words were found.

    Resolve that, then run hmem forget --resume.
    """

    exit_code = 28


class IndexServerAway(HmemError):
    """Qdrant, or the Redis that holds vectors, does not answer or refuses; the release in use stays.

    Check that the server runs, and QDRANT_URL or REDIS_STACK_URL; run the night again.
    """

    exit_code = 29


class NoDispatcher(HmemError):
    """No dispatcher gives a sign of life, so nobody answers.

    Start hmem run; its log says why it does not stay.
    """

    exit_code = 42


class QueueStalled(HmemError):
    """A dispatcher lives but has taken nothing from the queue for 5 seconds.

    Restart it and look at its log.
    """

    exit_code = 43


class AnswerFailed(HmemError):
    """The dispatcher could not answer: Claude failed, or the message was refused, cancelled or forgotten.

    Do what the sentence says; look at the dispatcher's log and hmem doctor.
    """

    exit_code = 69


class NightRunning(HmemError):
    """Another night holds the lock or the lease.

    Try again later.
    """

    exit_code = 75


def exit_codes() -> dict[int, str]:
    """Exit code → class name, of every error in the tree."""
    return {cls.exit_code: cls.__name__ for cls in HmemError.__subclasses__()}


def explanations() -> dict[int, tuple[str, str]]:
    """Exit code → what happened, what to do."""
    texts = {cls.exit_code: inspect.getdoc(cls) or "" for cls in HmemError.__subclasses__()}
    return {code: (text.partition("\n\n")[0], text.partition("\n\n")[2]) for code, text in texts.items()}
