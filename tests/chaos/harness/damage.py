"""What can be done to a release: to each of its files, and to the tree as a whole. Each case changes a tree of links to pristine files."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from shared.release.manifest import CHATS, CHROMA, LEXICAL, MANIFEST
from shared.system.files import remove_tree

#: A pipe is opened by the check itself after this time, lest a reader that waits for it waits for ever.
HELD_UP_SECONDS = 4.0

#: The pipes whose opening was waited for when that time was over.
held_up: list[Path] = []

#: Changes a tree of links to the pristine files; False if there is nothing to change.
Apply = Callable[[Path], bool]


@dataclass(frozen=True)
class Case:
    name: str
    apply: Apply
    sound: bool = False  # no corruption: it must be accepted
    reader: bool = True  # whether a dispatcher could meet it, too


def file_names(release: Path) -> list[str]:
    return sorted(path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file())


def file_cases(good: Path, last: Path) -> Iterator[Case]:
    for name in file_names(good):
        content = (good / name).read_bytes()
        yield Case(f"{name} deleted", _unlinked(name))
        for what, cut in (("nothing", 0), ("half", len(content) // 2), ("all but its last byte", len(content) - 1)):
            yield Case(f"{name} cut to {what}", _written(name, content, content[: max(cut, 0)]))
        for place in sorted({0, len(content) // 2, max(len(content) - 1, 0)} if content else ()):
            yield Case(f"{name} flipped at {place}", _written(name, content, flipped(content, place)))
        yield Case(f"{name} grown by a byte", _written(name, content, content + b"\n"))
        yield Case(f"{name} a link to the good content", _linked(name, good / name))
        yield Case(f"{name} a directory", _made_directory(name))
        yield Case(f"{name} a pipe", _made_pipe(name))
        if (last / name).is_file():
            yield Case(f"{name} swapped with the last release's", _written(name, content, (last / name).read_bytes()))


def tree_cases(good: Path, last: Path) -> Iterator[Case]:
    names = file_names(good)
    part = next(name for name in names if name.startswith(f"{LEXICAL}/"))
    for name in ("extra", ".hidden", f"{part}-wal", f"{part}-journal", f"{LEXICAL}/more.sqlite", f"{CHROMA}/chroma.sqlite3-wal",
                 f"{CHATS}/extra.txt", f"{CHROMA}/{MANIFEST}", "new/file"):  # fmt: skip
        yield Case(f"extra file {name}", _added(name))
    for name in ("empty", f"{CHROMA}/empty", f"{CHATS}/empty/deeper"):
        yield Case(f"extra empty directory {name}", _added_directory(name))
    yield Case("extra link to a file", _linked("extra", good / part))
    yield Case("extra link to a directory", _linked("extra", good / CHROMA))
    yield Case("extra link that leads nowhere", _linked("extra", Path("nowhere")))
    for name in (CHROMA, LEXICAL):
        yield Case(f"{name} a link to the good one", _linked(name, good / name))
        yield Case(f"{name} deleted", _unlinked(name))
    yield Case("all of the last release under this name", _replaced_by(last))
    yield Case("nothing in it", _replaced_by(None))
    others = [name for name in names if name != MANIFEST]
    for one, other in [*itertools.pairwise(others), (MANIFEST, part)]:
        yield Case(f"{one} and {other} swapped", _exchanged(one, other))
    for name in others:
        yield Case(f"{name} renamed", _renamed(name, f"{name}.old"))
    yield Case("the directory itself a link", _directory_linked, reader=False)  # a dispatcher resolves all links first


def sound_cases() -> Iterator[Case]:
    yield Case("another mode", _touched(lambda path: path.chmod(0o640)), sound=True)
    yield Case("another time", _touched(lambda path: os.utime(path, (1, 1))), sound=True)
    yield Case("untouched", lambda tree: True, sound=True)


def random_flips(good: Path, chance: Random, count: int) -> Iterator[Case]:
    names = [name for name in file_names(good) if (good / name).stat().st_size]
    for _ in range(count):
        name = chance.choice(names)
        content = (good / name).read_bytes()
        place, mask = chance.randrange(len(content)), 1 << chance.randrange(8)
        yield Case(f"{name} flipped at {place} by {mask:#x}", _written(name, content, flipped(content, place, mask)))


def flipped(content: bytes, place: int, mask: int = 0x01) -> bytes:
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def _unlinked(name: str) -> Apply:
    def apply(tree: Path) -> bool:
        path = tree / name
        remove_tree(path) if path.is_dir() else path.unlink()
        return True

    return apply


def _written(name: str, before: bytes, after: bytes) -> Apply:
    """Another content, with the time of the old one: a copy that compares sizes and times would not notice a flipped byte."""

    def apply(tree: Path) -> bool:
        if before == after:
            return False
        path = tree / name
        stat = path.stat()
        path.unlink()
        path.write_bytes(after)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return True

    return apply


def _linked(name: str, target: Path) -> Apply:
    def apply(tree: Path) -> bool:
        remove_tree(tree / name) if (tree / name).is_dir() else (tree / name).unlink(missing_ok=True)
        (tree / name).symlink_to(target)
        return True

    return apply


def _made_directory(name: str) -> Apply:
    def apply(tree: Path) -> bool:
        (tree / name).unlink()
        (tree / name).mkdir()
        return True

    return apply


def _made_pipe(name: str) -> Apply:
    def apply(tree: Path) -> bool:
        (tree / name).unlink()
        os.mkfifo(tree / name)
        threading.Timer(HELD_UP_SECONDS, _end_waiting, [tree / name]).start()
        return True

    return apply


def _end_waiting(pipe: Path) -> None:
    with contextlib.suppress(OSError):  # nobody reads it, as it should be, or it is gone
        end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        if stat.S_ISFIFO(os.fstat(end).st_mode):  # else it is the next case's file of that name
            held_up.append(pipe)
        os.close(end)


def _added(name: str) -> Apply:
    def apply(tree: Path) -> bool:
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(b"")
        return True

    return apply


def _added_directory(name: str) -> Apply:
    def apply(tree: Path) -> bool:
        (tree / name).mkdir(parents=True)
        return True

    return apply


def _exchanged(one: str, other: str) -> Apply:
    def apply(tree: Path) -> bool:
        if (tree / one).read_bytes() == (tree / other).read_bytes():
            return False
        (tree / one).rename(tree / "aside")
        (tree / other).rename(tree / one)
        (tree / "aside").rename(tree / other)
        return True

    return apply


def _renamed(name: str, to: str) -> Apply:
    def apply(tree: Path) -> bool:
        (tree / name).rename(tree / to)
        return True

    return apply


def _replaced_by(other: Path | None) -> Apply:
    def apply(tree: Path) -> bool:
        remove_tree(tree)
        tree.mkdir() if other is None else shutil.copytree(other, tree)
        return True

    return apply


def _directory_linked(tree: Path) -> bool:
    aside = tree.parent.parent / "elsewhere"
    remove_tree(aside)
    tree.rename(aside)
    tree.symlink_to(aside)
    return True


def _touched(change: Callable[[Path], None]) -> Apply:
    def apply(tree: Path) -> bool:
        for path in tree.rglob("*"):
            if path.is_file():
                content = path.read_bytes()  # a file of its own: the pristine one keeps mode and time
                path.unlink()
                path.write_bytes(content)
                change(path)
        return True

    return apply
