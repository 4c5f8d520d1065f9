"""Directories of notes in Markdown: the memory of OpenClaw and of Claude Code, and Basic Memory's knowledge base. Also as a ZIP archive, or one file.

**OpenClaw** (docs.openclaw.ai/concepts/memory): `MEMORY.md` with what lasts, `memory/YYYY-MM-DD.md` and `memory/YYYY-MM-DD-<slug>.md` with a day's
notes, other files below `memory/`. A day's notes are of noon of that day in CHAT_TIMEZONE, or of the time of day that they or their heading begin
with; the others have the time of their file. `DREAMS.md`, which a model writes for itself, is left out.

**Claude Code** (code.claude.com/docs/en/memory): `memory/MEMORY.md`, and beside it notes by subject, which may have front matter.

**Basic Memory** (github.com/basicmachines-co/basic-memory, docs/NOTE-FORMAT.md): notes with front matter (`title`, `created`, …), observations
`- [category] content #tag (context)` and relations `- relation_type [[Other note]] (context)`. Each of them, and every other paragraph, is kept word
for word behind its note's title; its time is the note's `created` or `date`, or that of its file. A note is told by its title: its path depends on
which directory is named, and its permalink may be added later or follow the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import Source
from nightly.imports.readers.memories.facts import ImportedFacts
from nightly.imports.recognition import beginnings
from shared.errors import InvalidInput
from shared.text.format import one_line
from shared.text.times import moment

OPENCLAW, BASIC_MEMORY = "openclaw", "basic-memory"

_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?:-[^/]*)?\.md\Z", re.IGNORECASE)
_CLOCK = re.compile(r"[\W_]{0,4}([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?:[ \t]?(?P<half>[ap])\.?m)?\b", re.IGNORECASE)
#: What OpenClaw keeps, and nobody else by these names.
_LASTING = re.compile(r"(?:(?:\A|/)MEMORY|(?:\A|/)memory/\d{4}-\d{2}-\d{2}(?:-[^/]*)?)\.md\Z")
#: Of Basic Memory's notes: an observation, which is no task that is open or done, or a relation.
_OBSERVATION = re.compile(r"[-*] (?:\[(?![ xX]\])[^\[\]\n]{1,40}\] \S|\w[\w -]{0,40} \[\[[^\[\]\n]{1,200}\]\])")
#: Headings that only name the kind of what stands below them.
_KINDS = ("observations", "relations")


@dataclass(frozen=True)
class _Note:
    """One file. `where`: what its facts' ids are made of, `title`: what stands ahead of each, `at`: when a piece was written."""

    where: str
    body: str
    before: int
    at: Callable[[Piece], float | None]
    title: str = ""


def read_openclaw(path: Path, source: Source) -> Iterator[ReadCandidate]:
    def note(member: Member, text: str) -> _Note:
        _, body, before = front_matter(text)
        day = _DAY.search(member.base)
        noon = None if day is None else _noon(day[1], source.zone)
        where = member.base.casefold() if noon else _below_memory(member.name)
        return _Note(where, body, before, lambda piece: _at_clock(piece, noon) if noon else member.modified)

    with opened_export(path, source.zone) as export:
        inside = path.name.casefold() == "memory"
        members = [
            one for one in export.members if export.alone or (inside and _is_note(one.name)) or _is_openclaw(one.name)
        ]
        program = "OpenClaw's memory" if any(_DAY.search(one.base) for one in members) else "MEMORY.md"
        facts = ImportedFacts(OPENCLAW, program, source.wanted)
        yield from _read(export, members, facts, "MEMORY.md, memory/YYYY-MM-DD.md", note)


def read_basic_memory(path: Path, source: Source) -> Iterator[ReadCandidate]:
    def note(member: Member, text: str) -> _Note:
        fields, body, before = front_matter(text)
        title = one_line(fields.get("title", "")) or PurePosixPath(member.name).stem
        written = next(
            (at for name in ("created", "created_at", "date") if (at := _time(fields.get(name), source.zone))), None
        )
        at = member.modified if written is None else written
        return _Note(title.casefold(), body, before, lambda _: at, title)

    facts = ImportedFacts(BASIC_MEMORY, "Basic Memory", source.wanted)
    with opened_export(path, source.zone) as export:
        members = [one for one in export.members if export.alone or _is_note(one.name)]
        yield from _read(export, members, facts, "*.md", note)


def is_openclaw(export: Export) -> str | None:
    for where, text in _notes(export, lambda name: _LASTING.search(name) is not None):
        if any(_HEADING.match(line) or _ITEM.match(line) for line in text.split("\n")):
            return f"{where}, Markdown called as OpenClaw's memory is"
    return None


def is_basic_memory(export: Export) -> str | None:
    if is_openclaw(export) is not None:
        return None
    for where, text in _notes(export, _is_note):
        fields, body, _ = front_matter(text)
        if "permalink" in fields or ("title" in fields and any(map(_OBSERVATION.match, body.split("\n")))):
            return f"{where}, Markdown with a permalink, or a title and `- [category] …` or `- relation [[Note]]`"
    return None


def _notes(export: Export, fits: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    for where, content in beginnings(export, [one for one in export.members if fits(one.name)]):
        if b"\0" not in content:
            yield where, content.decode("utf-8", "replace")


def _read(
    export: Export, members: list[Member], facts: ImportedFacts, named: str, note: Callable[[Member, str], _Note]
) -> Iterator[ReadCandidate]:
    if not members:
        raise InvalidInput(f"There is no {named} in {export.path}. Name the directory that contains them.")
    ordered = sorted(members, key=lambda one: one.name)
    yield from export.each(ordered, lambda one: _facts_of(note(one, one.text()), facts, one.size))


def _facts_of(note: _Note, facts: ImportedFacts, done: int) -> Iterator[ReadCandidate]:
    for piece in pieces(note.body, note.before):
        if not any(map(str.isalnum, piece.text)):
            yield ReadCandidate(done, left_out="a line without words")
            continue
        headings = [name for name in piece.headings if name.casefold() not in _KINDS]
        ahead = ": ".join(filter(None, (note.title, *headings)))
        words = f"{ahead}: {piece.text}" if ahead else piece.text
        yield facts.read(note.where, words, note.at(piece), done, f":{piece.line}")


def _is_openclaw(name: str) -> bool:
    """`MEMORY.md` of a workspace, or what is below `memory/`."""
    parts = PurePosixPath(name.casefold()).parts
    return parts[-1] == "memory.md" or ("memory" in parts[:-1] and parts[-1].endswith(".md"))


def _is_note(name: str) -> bool:
    return name.lower().endswith(".md")


def _below_memory(name: str) -> str:
    """The path below `memory/`, wherever that lies."""
    parts = PurePosixPath(name.casefold()).parts
    return "/".join(parts[parts.index("memory") + 1 :]) if "memory" in parts[:-1] else parts[-1]


def _noon(day: str, zone: ZoneInfo) -> datetime | None:
    try:
        return datetime.fromisoformat(day).replace(hour=12, tzinfo=zone)
    except ValueError:
        return None


def _at_clock(piece: Piece, noon: datetime) -> float:
    """The time of day that the piece or the innermost heading with one begins with, or noon."""
    found = next((one for text in (piece.text, *reversed(piece.headings)) if (one := _CLOCK.match(text))), None)
    if found is None:
        return noon.timestamp()
    hour = int(found[1])
    if found["half"] and 1 <= hour <= 12:
        hour = hour % 12 + 12 * (found["half"].lower() == "p")
    return noon.replace(hour=hour, minute=int(found[2])).timestamp()


def _time(value: str | None, zone: ZoneInfo) -> float | None:
    try:
        return moment(value, zone)
    except ValueError:
        return None


# ── A note in Markdown, in the pieces that are one statement each: a list item with what is indented below it, or a paragraph.
#
# Its front matter is read line by line, and only for single values: YAML as a whole can do more than a note from anybody should (aliases, tags).


# None of these looks ahead over more than a few characters: a line may be megabytes long.
_FIELD = re.compile(r"([A-Za-z_][\w-]{0,63}):[ \t]")
_HEADING = re.compile(r"(#{1,6})(?=[ \t])")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
#: Lines of front matter that are looked at.
_MOST_FIELDS = 200


@dataclass(frozen=True)
class Piece:
    """`headings`: the ones it stands under, without the first-level one, the outermost first. `line`: its first one, from 1."""

    text: str
    headings: tuple[str, ...]
    line: int


def front_matter(text: str) -> tuple[dict[str, str], str, int]:
    """(single values by name in lower case, the text behind the front matter, how many lines are ahead of it)."""
    lines = text.split("\n")
    if lines[0].strip() != "---":
        return {}, text, 0
    ends = (number for number in range(1, min(len(lines), _MOST_FIELDS)) if lines[number].rstrip() in ("---", "..."))
    end = next(ends, None)
    if end is None:
        return {}, text, 0
    fields = ((_FIELD.match(line), line) for line in lines[1:end])
    values = {one[1].lower(): _value(line[one.end() :].strip()) for one, line in fields if one}
    return {name: value for name, value in values.items() if value}, "\n".join(lines[end + 1 :]), end + 1


def _value(written: str) -> str:
    for quote in "\"'":
        if len(written) > 1 and written[0] == written[-1] == quote:
            return written[1:-1].replace(quote * 2 if quote == "'" else '\\"', quote)
    return written


def pieces(text: str, before: int = 0) -> Iterator[Piece]:
    """`before`: lines ahead of the text in its file."""
    headings = dict[int, str]()
    held, begun, fence, in_item = list[str](), 0, "", False

    def piece() -> Iterator[Piece]:
        words = _ITEM.sub("", "\n".join(held), count=1).strip() if in_item else "\n".join(held).strip()
        if words:
            yield Piece(words, tuple(name for level, name in sorted(headings.items()) if level > 1), before + begun)
        held.clear()

    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip()
        opened = _FENCE.match(line)
        if fence:
            held.append(line)
            fence = "" if opened and opened[1].startswith(fence) else fence
            continue
        heading, item = _HEADING.match(line), bool(_ITEM.match(line))
        # A blank line ends a paragraph; an item goes on below it, as far as that is indented.
        ends = heading or item or not line or (held and not held[-1] and not line.startswith((" ", "\t")))
        if ends and not (not line and held and in_item):
            yield from piece()
        if heading:
            headings = {level: name for level, name in headings.items() if level < len(heading[1])}
            headings[len(heading[1])] = line[heading.end() :].strip().rstrip("#").rstrip()
            continue
        if line or held:
            begun, in_item = (begun, in_item) if held else (number, item)
            held.append(line)
        fence = opened[1] if opened else ""
    yield from piece()
