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
from functools import partial
from pathlib import Path
from random import Random

from shared.config.kinds import place_of
from shared.release.manifest import LEXICAL, MANIFEST
from shared.system.files import remove_tree

CHROMA = place_of("chroma")

#: A pipe is opened by the check itself after this time, lest a reader that waits for it waits for ever.
HELD_UP_SECONDS = 4.0

#: The pipes whose opening was waited for when that time was over.
held_up: list[Path] = []

#: Changes a tree of links to the pristine files; False if there is nothing to change.
Apply = Callable[[Path], object]


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
        shared = (last / name).is_file() and (last / name).read_bytes() == content
        # What the last release has, too, is not sent: the receiver links it.
        yield Case(f"{name} deleted", partial(_unlink, name), sound=shared, reader=not shared)
        for what, cut in (("nothing", 0), ("half", len(content) // 2), ("all but its last byte", len(content) - 1)):
            yield Case(f"{name} cut to {what}", partial(_write, name, content, content[: max(cut, 0)]))
        for place in sorted({0, len(content) // 2, max(len(content) - 1, 0)} if content else ()):
            yield Case(f"{name} flipped at {place}", partial(_write, name, content, flipped(content, place)))
        yield Case(f"{name} grown by a byte", partial(_write, name, content, content + b"\n"))
        yield Case(f"{name} a link to the good content", partial(_link, name, good / name))
        yield Case(f"{name} a directory", partial(_make_directory, name))
        yield Case(f"{name} a pipe", partial(_make_pipe, name))
        if (last / name).is_file():
            yield Case(
                f"{name} swapped with the last release's", partial(_write, name, content, (last / name).read_bytes())
            )


def tree_cases(good: Path, last: Path) -> Iterator[Case]:
    names = file_names(good)
    part = next(name for name in names if name.startswith(f"{LEXICAL}/"))
    for name in ("extra", ".hidden", f"{part}-wal", f"{part}-journal", f"{LEXICAL}/more.sqlite", f"{CHROMA}/chroma.sqlite3-wal",
                 f"{LEXICAL}/extra.txt", f"{CHROMA}/{MANIFEST}", "new/file"):  # fmt: skip
        yield Case(f"extra file {name}", partial(_add, name))
    for name in ("empty", f"{CHROMA}/empty", f"{LEXICAL}/empty/deeper"):
        yield Case(f"extra empty directory {name}", partial(_add_directory, name))
    yield Case("extra link to a file", partial(_link, "extra", good / part))
    yield Case("extra link to a directory", partial(_link, "extra", good / CHROMA))
    yield Case("extra link that leads nowhere", partial(_link, "extra", Path("nowhere")))
    for name in (CHROMA, LEXICAL):
        yield Case(f"{name} a link to the good one", partial(_link, name, good / name))
        yield Case(f"{name} deleted", partial(_unlink, name))
    yield Case("all of the last release under this name", partial(_replace_by, last))
    yield Case("nothing in it", partial(_replace_by, None))
    others = [name for name in names if name != MANIFEST]
    for one, other in [*itertools.pairwise(others), (MANIFEST, part)]:
        yield Case(f"{one} and {other} swapped", partial(_exchange, one, other))
    for name in others:
        yield Case(f"{name} renamed", partial(_rename, name))
    yield Case("the directory itself a link", _link_directory, reader=False)  # a dispatcher resolves all links first


def sound_cases() -> Iterator[Case]:
    yield Case("another mode", partial(_touch, lambda path: path.chmod(0o640)), sound=True)
    yield Case("another time", partial(_touch, lambda path: os.utime(path, (1, 1))), sound=True)
    yield Case("untouched", lambda tree: None, sound=True)


def random_flips(good: Path, chance: Random, count: int) -> Iterator[Case]:
    names = [name for name in file_names(good) if (good / name).stat().st_size]
    for _ in range(count):
        name = chance.choice(names)
        content = (good / name).read_bytes()
        place, mask = chance.randrange(len(content)), 1 << chance.randrange(8)
        yield Case(
            f"{name} flipped at {place} by {mask:#x}", partial(_write, name, content, flipped(content, place, mask))
        )


def flipped(content: bytes, place: int, mask: int = 0x01) -> bytes:
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def _unlink(name: str, tree: Path) -> None:
    path = tree / name
    remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _write(name: str, before: bytes, after: bytes, tree: Path) -> bool:
    """Another content, with the time of the old one: a copy that compares sizes and times would not notice a flipped byte."""
    path = tree / name
    stat = path.stat()
    path.unlink()
    path.write_bytes(after)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return before != after


def _link(name: str, target: Path, tree: Path) -> None:
    _unlink(name, tree)
    (tree / name).symlink_to(target)


def _make_directory(name: str, tree: Path) -> None:
    (tree / name).unlink()
    (tree / name).mkdir()


def _make_pipe(name: str, tree: Path) -> None:
    (tree / name).unlink()
    os.mkfifo(tree / name)
    threading.Timer(HELD_UP_SECONDS, _end_waiting, [tree / name]).start()


def _end_waiting(pipe: Path) -> None:
    with contextlib.suppress(OSError):  # nobody reads it, as it should be, or it is gone
        end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        if stat.S_ISFIFO(os.fstat(end).st_mode):  # else it is the next case's file of that name
            held_up.append(pipe)
        os.close(end)


def _add(name: str, tree: Path) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_bytes(b"")


def _add_directory(name: str, tree: Path) -> None:
    (tree / name).mkdir(parents=True)


def _rename(name: str, tree: Path) -> None:
    (tree / name).rename(tree / f"{name}.old")


def _exchange(one: str, other: str, tree: Path) -> bool:
    different = (tree / one).read_bytes() != (tree / other).read_bytes()
    (tree / one).rename(tree / "aside")
    (tree / other).rename(tree / one)
    (tree / "aside").rename(tree / other)
    return different


def _replace_by(other: Path | None, tree: Path) -> None:
    remove_tree(tree)
    tree.mkdir() if other is None else shutil.copytree(other, tree)


def _link_directory(tree: Path) -> None:
    aside = tree.parent.parent / "elsewhere"
    remove_tree(aside)
    tree.rename(aside)
    tree.symlink_to(aside)


def _touch(change: Callable[[Path], None], tree: Path) -> None:
    for path in tree.rglob("*"):
        if path.is_file():
            content = path.read_bytes()  # a file of its own: the pristine one keeps mode and time
            path.unlink()
            path.write_bytes(content)
            change(path)
