"""Whether a forgotten text is still in any file: pieces of it looked for byte by byte, whatever the file's format.

A text is looked for by windows of some 32 bytes, so that a part of it is enough, and by its telling words, which an index of words keeps without
the sentence around them. JSON may write what is not ASCII as escapes, JSON inside JSON as escapes of these, and what is no UTF-8 stands in records
as Base64: each form is a pattern of its own.

GNU grep does the search: thousands of patterns at once, a gigabyte in seconds. It gets them through an anonymous file, never as arguments (which
others can read) and never on disk. What is found is reported by place and number; no word of it leaves this module.
"""

from __future__ import annotations

import base64
import json
import os
import re
import string
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from shared.errors import SettingsError, StorageError
from shared.system.files import opened
from shared.text.format import in_batches

#: Bytes of a window; most windows and words of one search.
WINDOW_BYTES, MOST_WINDOWS, MOST_WORDS = 32, 5_000, 2_000
#: The shortest text that is looked for as a whole: a shorter one is in every file. Characters.
SHORTEST_TEXT = 8
#: Letters of a word that tells something, and characters of one with digits in it (a shorter number is in every time and hash).
TELLING_LETTERS, TELLING_DIGITS = 6, 8
#: Larger files go to grep in blocks: it keeps a whole line in memory, and a binary file may be one line.
LARGE_BYTES, BLOCK_BYTES = 64 << 20, 32 << 20
#: Files that one grep looks through, and bytes of values that it is given at once.
FILES_AT_ONCE, VALUES_AT_ONCE = 500, 16 << 20

Item = TypeVar("Item")

_WORD = re.compile(r"[^\W_]+")
_GREP = ("grep", "-a", "-F")
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True)
class FoundBytes:
    """A place that holds some of it: a path or a name, and in how many lines or blocks."""

    place: str
    hits: int


@dataclass
class Scanned:
    """What was looked through. `unreadable`: places of which nothing is proven."""

    files: int = 0
    bytes: int = 0
    found: list[FoundBytes] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, other: Scanned) -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.found += other.found
        self.unreadable += other.unreadable


@dataclass(frozen=True)
class Needles:
    """Pieces of texts. `said_elsewhere`: pieces left out, because a text that is kept says the same."""

    windows: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    said_elsewhere: int = 0

    @classmethod
    def of(cls, texts: Collection[str]) -> Needles:
        distinct = list(dict.fromkeys(texts))
        chosen = _evenly(distinct, MOST_WINDOWS)
        each = max(1, MOST_WINDOWS // max(1, len(chosen)))
        windows = dict.fromkeys(window for text in chosen for window in _windows(text, each))
        words = dict.fromkeys(word for text in distinct for word in _telling(text))
        return cls(tuple(windows)[:MOST_WINDOWS], tuple(_evenly([*words], MOST_WORDS)))

    def __len__(self) -> int:
        return len(self.windows) + len(self.words)

    def only_windows(self) -> Needles:
        """For files of other programs, whose own words would pass for those of a person."""
        return Needles(self.windows, (), self.said_elsewhere)

    def without(self, kept: Iterable[str]) -> Needles:
        """Those that no text which is kept says."""
        windows, words = dict.fromkeys(self.windows), dict.fromkeys(self.words)
        said_so = (form.encode("utf-8", "replace") for text in kept for form in _as_told(text))
        for some in in_batches(said_so, VALUES_AT_ONCE, len):
            folded = [line.decode("utf-8").casefold().encode() for line in some]
            while windows or words:  # a match hides one that overlaps it: look again without it
                seen = _matches([*some, *folded], [name.encode("utf-8", "replace") for name in (*windows, *words)])
                said = {match.decode("utf-8", "replace") for _, match in seen}
                if not said:
                    break
                windows = {name: None for name in windows if name not in said}
                words = {name: None for name in words if name not in said}
        return Needles(tuple(windows), tuple(words), self.said_elsewhere + len(self) - len(windows) - len(words))

    def apart_from(self, terms: Iterable[str]) -> Needles:
        """Without words that a kept term of an index may pass for: beside it there stand numbers, of which some bytes are letters."""
        kept = {form for word in self.words for form in _alike(word)}.intersection(terms)
        words = tuple(word for word in self.words if kept.isdisjoint(_alike(word)))
        return Needles(self.windows, words, self.said_elsewhere + len(self.words) - len(words))

    def patterns(self) -> list[bytes]:
        """Every form in which a piece may stand in a file."""
        forms = (form for piece in (*self.windows, *self.words) for form in _forms(piece))
        return list(dict.fromkeys([*forms, *(form for piece in self.windows for form in _base64_forms(piece))]))


def own_words() -> Iterator[str]:
    """What these programs are written with: field names, SQL, prompts. Where they stand, they tell of nobody."""
    root = Path(__file__).parent.parent.parent
    for package in ("shared", "dispatcher", "nightly"):
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".lua", ".j2", ".sql"):
                yield path.read_text(encoding="utf-8")


def _as_told(text: str) -> set[str]:
    """As it was said, and as a summary tells it: in one line."""
    return {text, " ".join(text.split())}


def _alike(word: str) -> set[str]:
    """The terms that it may be, or one with a letter ahead or one or two behind."""
    return {part for form in (word, word.casefold()) for part in (form, form[1:], form[:-1], form[:-2])}


def _windows(text: str, most: int) -> Iterator[str]:
    """Pieces of a text: the first, the last, and evenly between them; none across a line break, or a character that was no character."""
    lines = [
        line for line in (part.strip() for part in re.split("[\r\n\x00\ufffd]+", text)) if len(line) >= SHORTEST_TEXT
    ]
    starts = [(line, at) for line in lines for at in _starts(line)]
    for line, at in _evenly(starts, most):
        yield _window(line, at)


def _starts(line: str) -> list[int]:
    step = max(1, WINDOW_BYTES * len(line) // max(1, len(line.encode("utf-8", "replace"))))
    last = max(0, len(line) - step)
    return sorted({*range(0, last, step), last})


def _window(line: str, at: int) -> str:
    """So many whole characters from there as fit."""
    piece = line[at : at + WINDOW_BYTES]
    if at:  # the end of an escape would pass for the first letters: "\\u043e recipe" holds "e recipe"
        piece = piece.lstrip(string.hexdigits) or piece
    return piece.encode("utf-8", "replace")[:WINDOW_BYTES].decode("utf-8", "ignore")


def _telling(text: str) -> Iterator[str]:
    """Words by which an index finds the text, as they are written and with case folded."""
    for word in _WORD.findall(text):
        if len(word) >= (TELLING_LETTERS if word.isalpha() else TELLING_DIGITS):
            yield word
            yield word.casefold()


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most so many, spread over all of them, the first and the last among them."""
    if len(items) <= most:
        return items
    if most == 1:
        return items[:1]
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]


def _forms(piece: str) -> Iterator[bytes]:
    yield piece.encode("utf-8", "replace")
    for ascii_only in (False, True):
        once = json.dumps(piece, ensure_ascii=ascii_only)[1:-1]
        yield once.encode("utf-8", "replace")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "replace")


def _base64_forms(piece: str) -> Iterator[bytes]:
    """What stands in a Base64 text wherever in it the piece begins: three alignments, without the characters that depend on the neighbours."""
    raw = piece.encode("utf-8", "replace")
    for ahead in range(3):
        whole = raw[(3 - ahead) % 3 :]
        yield base64.b64encode(whole[: len(whole) // 3 * 3])


def scan(places: Iterable[Path], needles: Needles, skip: Collection[Path] = ()) -> Scanned:
    """Look through every regular file of these places, and at its name. Links are not followed; `skip`: paths left out with all below them."""
    patterns, scanned = needles.patterns(), Scanned()
    for some in in_batches(_files(places, set(skip), scanned), FILES_AT_ONCE):
        small = [path for path, size in some if size <= LARGE_BYTES]
        scanned.files += len(some)
        scanned.bytes += sum(size for _, size in some)
        if not patterns:
            continue
        _scan_small(small, patterns, scanned)
        for path in (path for path, size in some if size > LARGE_BYTES):
            _scan_large(path, patterns, scanned)
        names = [os.fsencode(path.name) for path, _ in some]
        for number in sorted({number for number, _ in _matches(names, patterns)}):
            scanned.found.append(FoundBytes(f"name of a file in {some[number][0].parent}", 1))
    return scanned


def scan_values(values: Iterable[tuple[str, bytes]], needles: Needles) -> Scanned:
    """The same for values that lie in no file: (name of the place, bytes)."""
    patterns, scanned = needles.patterns(), Scanned()
    hits = Counter[str]()
    for some in in_batches(values, VALUES_AT_ONCE, lambda value: len(value[1])):
        scanned.files += len(some)
        scanned.bytes += sum(len(value) for _, value in some)
        found = {number for number, _ in _matches([value for _, value in some], patterns)}
        hits.update(some[number][0] for number in sorted(found))
    scanned.found = [FoundBytes(place, count) for place, count in hits.items()]
    return scanned


def _files(places: Iterable[Path], skip: set[Path], scanned: Scanned) -> Iterator[tuple[Path, int]]:
    """Regular files with their sizes; what cannot be listed is noted."""
    for place in places:
        if place in skip or not os.path.lexists(place):
            continue
        if not place.is_dir() or place.is_symlink():
            yield from _sized(place, scanned)
            continue
        for folder, folders, names in os.walk(place, onerror=lambda error: _note(scanned, error)):
            folders[:] = [name for name in folders if Path(folder, name) not in skip]
            for name in names:
                if Path(folder, name) not in skip:
                    yield from _sized(Path(folder, name), scanned)


def _note(scanned: Scanned, error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # gone while we looked
        scanned.unreadable.append(str(error.filename))


def _sized(path: Path, scanned: Scanned) -> Iterator[tuple[Path, int]]:
    try:
        if path.is_file() and not path.is_symlink():
            yield path, path.stat().st_size
    except OSError as error:
        _note(scanned, error)


def _scan_small(paths: Sequence[Path], patterns: Sequence[bytes], scanned: Scanned) -> None:
    if not paths:
        return
    done = _searched(patterns, "-c", "-H", "-Z", paths=paths)
    counts = {os.fsdecode(name): int(count) for name, count in re.findall(rb"([^\0]+)\0(\d+)\n", done.stdout)}
    for path in paths:
        if counts.get(str(path), 0):
            scanned.found.append(FoundBytes(str(path), counts[str(path)]))
        if b"grep: " + os.fsencode(path) + b": " in done.stderr and path.exists():
            _scan_large(path, patterns, scanned)  # it says why, or finds that it is gone


def _scan_large(path: Path, patterns: Sequence[bytes], scanned: Scanned) -> None:
    """Block by block; each begins with the end of the one before, so that no piece is lost at the border."""
    hits, tail, overlap = 0, b"", max(map(len, patterns)) - 1
    try:
        with opened(path, os.O_RDONLY) as handle:
            while block := handle.read(BLOCK_BYTES):
                done = _searched(patterns, "-c", content=tail + block)
                _refuse_failed(done)
                hits += int(done.stdout)
                tail = (tail + block)[-overlap:] if overlap else b""
    except FileNotFoundError:  # gone while we looked
        pass
    except (OSError, StorageError):  # StorageError: a link by now
        scanned.unreadable.append(str(path))
    if hits:
        scanned.found.append(FoundBytes(str(path), hits))


def _refuse_failed(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode > 1:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise SettingsError(f"grep could not search: {why}. Install GNU grep, then run it again.")


def _matches(lines: Sequence[bytes], patterns: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """(number of the line, what was found in it). No pattern holds a line break, so those within a line may go."""
    if not lines or not patterns:
        return []
    content = b"\n".join(line.replace(b"\n", b"\0") for line in lines) + b"\n"
    done = _searched(patterns, "-n", "-o", content=content)
    _refuse_failed(done)
    found = (line.partition(b":") for line in done.stdout.splitlines())
    return [(int(number) - 1, match) for number, _, match in found]


def _searched(
    patterns: Sequence[bytes], *options: str, paths: Sequence[Path] = (), content: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """One search through these files, or through this content."""
    with _pattern_file(patterns) as (option, descriptor):
        command = [*_GREP, *options, *option, "--", *map(str, paths)]
        return subprocess.run(
            command, input=content, capture_output=True, pass_fds=[descriptor], env=_ENVIRONMENT, check=False
        )


@contextmanager
def _pattern_file(patterns: Sequence[bytes]) -> Iterator[tuple[list[str], int]]:
    """The option that names the patterns, and the descriptor that the child needs: a file in memory that has no name."""
    descriptor = os.memfd_create("patterns")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as handle:
            handle.write(b"\n".join(patterns) + b"\n")
        yield ["-f", f"/dev/fd/{descriptor}"], descriptor
    finally:
        os.close(descriptor)
