"""The formats that a backfill reads from files: what the modules in `nightly/imports/readers/` add by a hook (shared/hooks.py)."""

from __future__ import annotations

import pkgutil
import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

from nightly.imports import readers
from nightly.imports.candidates import ReadCandidate, Wanted
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.recognition import beginnings
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.hooks import Hooks, specification

#: Reads one file.
Reader = Callable[[Path], Iterator[ReadCandidate]]


@dataclass(frozen=True)
class Source:
    """What a reader is made for. `options`: those of the format that were given, by name."""

    files: list[Path]
    wanted: Wanted
    settings: Settings
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return self.settings.timezone


@dataclass(frozen=True)
class ImportFormat:
    """`what`: what the files are, for people; `recognise`: why an export is of this format by its content, or None; `options`: names of the options
    of `hmem-night backfill` that it takes.

    `pattern`: of the files in a directory; None: the reader takes what was named as it is, a directory or a ZIP archive, too. `of_a_chat`: whether
    the files, or the bot's settings, say which chats of ours they belong to; otherwise --chat must.
    """

    name: str
    what: str
    reader: Callable[[Source], Reader]
    recognise: Callable[[Export], str | None]
    pattern: str | None = None
    options: tuple[str, ...] = ()
    of_a_chat: bool = False

    def reading(self, source: Source) -> Callable[[Path, int], Iterator[ReadCandidate]]:
        """Reads one file, given with its number in the import, as candidates; with a note on a file that holds nothing."""
        read = self.reader(source)

        def whole(path: Path, unit: int) -> Iterator[ReadCandidate]:
            some, done = False, 0
            for one in read(path):
                one.judge(self.name, unit, source.wanted)
                some, done = some or bool(one.candidate or one.left_out or one.unreadable), one.done
                yield one
            if not some:
                yield ReadCandidate(done, note=f"{path} holds no message and no fact")

        return whole


def file_by_file(read: Callable[[Path, Source], Iterator[ReadCandidate]]) -> Callable[[Source], Reader]:
    """For a reader that needs to know nothing of the other files."""
    return lambda source: lambda path: read(path, source)


@specification(fails="closed")
def import_formats() -> Sequence[ImportFormat] | None:
    """The formats that this module reads."""


@cache
def formats() -> dict[str, ImportFormat]:
    """By the name that `hmem-night backfill` takes."""
    names = sorted(one.name for one in pkgutil.iter_modules(readers.__path__, f"{readers.__name__}."))
    found = Hooks([(name, import_module(name)) for name in names], [__name__]).ask(import_formats)
    return {one.name: one for some in found for one in some}


def recognised(path: Path) -> list[tuple[ImportFormat, str]]:
    """The formats that a file, a directory or a ZIP archive has by its content, each with the reason; none of what is no export, and no exception."""
    try:
        with opened_export(path, ZoneInfo("UTC")) as export:
            readable = [one for one in formats().values() if one.pattern is None or not export.is_zip]
            found = [(one, one.recognise(export)) for one in readable]
    except (InvalidInput, OSError, ValueError):
        return []
    return [(one, why) for one, why in found if why is not None]


def format_of(files: Sequence[Path]) -> tuple[str, str]:
    """(the one format that all of these have, why). InvalidInput if there is none."""
    found = {path: recognised(path) for path in files}
    if unknown := next((path for path, some in found.items() if not some), None):
        raise _unknown(unknown)
    whys = dict[str, str]()  # by format, of the first file that has it
    for path, some in found.items():
        for one, why in some:
            whys.setdefault(one.name, f"{path} is read as {one.name}, as {why}")
    if len(whys) > 1:
        raise InvalidInput(
            f"{'; '.join(whys.values())}. Name one format, and its files: hmem-night backfill FORMAT FILE."
        )
    (form, why), *_ = found[files[0]]
    return form.name, f"{files[0]} is {form.what.partition(' (')[0]}: {why}."


def _unknown(path: Path) -> InvalidInput:
    """Why it is of no format, for a person."""
    first, alone = b"", False
    try:
        with opened_export(path, ZoneInfo("UTC")) as export:
            first, alone = next(beginnings(export, export.members), ("", b""))[1], export.alone
    except InvalidInput as error:
        return error  # a ZIP that is cut off
    except (OSError, ValueError) as error:
        return InvalidInput(f"{path} cannot be read: {error}. Nothing was imported.")
    if not first:
        return InvalidInput(f"{path} is empty. Nothing was imported.")
    if alone and b"\0" in first and not first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        what = "holds no text (a picture, a recording, a program?)"
        return InvalidInput(f"{path} {what}. Name the file that the other program has exported. Nothing was imported.")
    known = (f"  {one.name:13} {one.what}" for one in formats().values())
    near = ", ".join(_nearest(path.stem + (".json" if first.lstrip()[:1] in (b"{", b"[") else path.suffix)))
    # Chat and page show the last line alone.
    told = (
        f"{path} is not recognised by its content as any format. By its name it may be one of {near}; name it to learn what is missing: "
        f"hmem-night backfill FORMAT {shlex.quote(str(path))}"
    )
    return InvalidInput("\n".join(["The formats are:", *known, told]))


def _nearest(name: str) -> list[str]:
    """The three formats whose description has the words that are most like the name of this file."""

    def likeness(one: ImportFormat) -> float:
        words = re.findall(r"[\w.]+", f"{one.name} {one.what}".lower())
        return max(SequenceMatcher(None, name.lower(), word).ratio() for word in words)

    return [one.name for one in sorted(formats().values(), key=likeness, reverse=True)[:3]]


def other_format(form: str, files: Sequence[Path]) -> str:
    """What the first of these is that is of another format, and how to import it; "" if none is."""
    for path in files:
        found = recognised(path)
        if found and form not in [one.name for one, _ in found]:
            other, why = found[0]
            return f"{path} is {other.what} ({why}): hmem-night backfill {other.name} {shlex.quote(str(path))}"
    return ""


def format_named(name: str) -> ImportFormat:
    """InvalidInput for an unknown one."""
    if name not in formats():
        alike = get_close_matches(name, formats())
        raise InvalidInput(
            f"There is no format and no file {name}. {f'Did you mean {alike[0]}? ' if alike else ''}hmem-night backfill lists the formats."
        )
    return formats()[name]
