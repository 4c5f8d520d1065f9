"""Every error a person may meet, one class per cause, with its exit code.

    HmemError
    ├── SettingsError          10  a setting is missing or wrong
    ├── RedisUnavailable       11  Redis does not answer, or refuses
    ├── ClaudeUnavailable      12  the Claude CLI cannot be started
    ├── EmbeddingError         13  the embedder is missing, away or answers nonsense
    ├── ArchiveDamaged         14  an archive segment fails its own hash
    ├── StorageError           15  the disk is full, read-only or failing, or a directory of ours is not ours alone
    ├── ReleaseRefused         16  a release is incomplete, changed, foreign, older or smaller than it may be
    ├── PublishFailed          17  a release could not be brought to, or taken up on, the day host
    ├── RestartFailed          18  the restart command failed; memory itself is published and safe
    ├── LeaseLost              19  another night took over while this one was away
    ├── LedgerMismatch         20  the night's counts do not add up
    ├── MemoryStale            21  no good night for 36 hours
    ├── AnswerTimeout          22  no answer came in time
    ├── ForgedResult           23  a result's signature does not match
    ├── InvalidInput           24  an argument cannot be used
    ├── StepTimeout            25  a step of the night took longer than it may
    ├── MirrorFailed           26  the archive's mirror cannot be reached, or does not hold what it should
    ├── StoreUnavailable       27  the medium store does not answer, refuses, or is newer than this program
    ├── ForgetIncomplete       28  something is not forgotten everywhere yet
    ├── IndexServerAway        29  the server that holds a vector index does not answer, or refuses
    ├── NoDispatcher           42  no dispatcher runs, so nobody answers
    ├── QueueStalled           43  a dispatcher lives, and takes nothing from the queue
    ├── AnswerFailed           69  the dispatcher has answered that it could not answer (EX_UNAVAILABLE)
    └── NightRunning           75  another night holds the lease (EX_TEMPFAIL: try again later)

An error's text is one sentence of what happened and why, and one of what to do. Exit code 1 is a defect of ours, 2 wrong usage.
"""

from __future__ import annotations


class HmemError(Exception):
    """Base of all errors that are expected; `exit_code` is what a command ends with."""

    exit_code = 1


class SettingsError(HmemError):
    exit_code = 10


class RedisUnavailable(HmemError):
    exit_code = 11


class ClaudeUnavailable(HmemError):
    exit_code = 12


class EmbeddingError(HmemError):
    exit_code = 13


class ArchiveDamaged(HmemError):
    exit_code = 14


class StorageError(HmemError):
    exit_code = 15


class ReleaseRefused(HmemError):
    exit_code = 16


class PublishFailed(HmemError):
    exit_code = 17


class RestartFailed(HmemError):
    exit_code = 18


class LeaseLost(HmemError):
    exit_code = 19


class LedgerMismatch(HmemError):
    exit_code = 20


class MemoryStale(HmemError):
    exit_code = 21


class AnswerTimeout(HmemError):
    exit_code = 22


class ForgedResult(HmemError):
    exit_code = 23


class InvalidInput(HmemError):
    exit_code = 24


class StepTimeout(HmemError):
    exit_code = 25


class MirrorFailed(HmemError):
    exit_code = 26


class StoreUnavailable(HmemError):
    """The next call tries again."""

    exit_code = 27


class ForgetIncomplete(HmemError):
    """`hmem forget --resume` goes on."""

    exit_code = 28


class IndexServerAway(HmemError):
    """By day there are keywords meanwhile."""

    exit_code = 29


class NoDispatcher(HmemError):
    exit_code = 42


class QueueStalled(HmemError):
    exit_code = 43


class AnswerFailed(HmemError):
    exit_code = 69


class NightRunning(HmemError):
    exit_code = 75


def exit_codes() -> dict[int, str]:
    """Exit code → class name, of every error in the tree (the documentation is checked against it)."""
    return {cls.exit_code: cls.__name__ for cls in HmemError.__subclasses__()}
