"""What harms the files of a built index, and a disk that is full."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path


def flip_page(path: Path, page: int = 3) -> None:
    """The byte that says what kind of page this is."""
    with path.open("r+b") as file:
        size = int.from_bytes(path.read_bytes()[16:18], "big")
        file.seek(page * size)
        file.write(b"\xff")


def sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return damage


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the write fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
