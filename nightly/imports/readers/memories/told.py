"""What an assistant knows of its person, as it tells it: Claude's memory in its data export, and the list that any assistant writes when it is asked.

**Claude**: `memories.json`, in newer exports `memories/<account>.json`:

    [{"conversations_memory": Markdown, "project_memories": {PROJECT: Markdown}, "account_uuid"}]      or one such object

Field names as public readers of the export have them. It names no times: a fact has that of its file, which is about when the export was made.

**A list**: lines `[2025-11-02] - likes short answers`, which claude.com/import-memory asks other assistants for. Any other date is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path, PurePosixPath

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import Source
from nightly.imports.readers.conversations import object_of
from nightly.imports.readers.memories.facts import ImportedFacts
from nightly.imports.readers.memories.notes import pieces
from nightly.imports.recognition import beginnings, outlines
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused, loads_object

LIST = "memory-list"

#: Claude writes headings as lines in bold.
_BOLD_LINE = re.compile(r"^\*\*([^*\n]{1,200})\*\*[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"[ \t]*(?:[-*•][ \t]+)?\[(?P<date>[^\[\]\n]{1,60})\][ \t]*[-–—:][ \t]*(?P<text>\S.*)")


def claude_memories(export: Export) -> list[Member]:
    """The files of an export that hold Claude's memory."""
    if export.alone:
        paths = frozenset[str]().union(*(found for _, found in outlines(export)))
        return export.members if {"conversations_memory", "[].conversations_memory"} & paths else []
    return [one for one in export.members if _is_of_claude(PurePosixPath(one.name.casefold()))]


def _is_of_claude(path: PurePosixPath) -> bool:
    return path.name == "memories.json" or (path.parent.name == "memories" and path.suffix == ".json")


def claude_facts(member: Member, facts: ImportedFacts) -> Iterator[ReadCandidate]:
    """The facts of one such file; RecordRefused if it has none."""
    read = loads_object(b'{"is": %b}' % member.text().encode())["is"]
    found = list[tuple[str, str]]()
    for one in read if isinstance(read, list) else [read]:
        told, projects = object_of(one), object_of(object_of(one).get("project_memories"))
        texts = {"": told.get("conversations_memory"), **projects}
        found += [(where, text) for where, text in texts.items() if isinstance(text, str)]
    if not found:
        raise RecordRefused("it has no conversations_memory")
    for where, text in found:
        for piece in pieces(_BOLD_LINE.sub(r"## \1", text)):
            words = ": ".join([*piece.headings, piece.text])
            yield facts.read(where, words, member.modified, 0)


def read_list(path: Path, source: Source) -> Iterator[ReadCandidate]:
    facts = ImportedFacts(LIST, "another assistant's memory", source.wanted)

    def entries(member: Member) -> Iterator[ReadCandidate]:
        for number, line, done in member.lines():
            if entry := _ENTRY.match(line or ""):
                at = _at(entry["date"], source, member.modified)
                yield facts.read("", entry["text"], at, done, f":{number}")
            elif line is None:
                yield ReadCandidate(done, unreadable="the line is too long", place=f":{number}")
            elif any(map(str.isalnum, line)):
                yield ReadCandidate(done, left_out="a line that is not an entry of a list of memories")

    with opened_export(path, source.zone) as export:
        if len(export.members) != 1:
            raise InvalidInput(f"{path} is not one file of text. Save the list of memories as one, and name that.")
        yield from export.each(export.members, entries)


def is_list(export: Export) -> str | None:
    for where, content in beginnings(export, export.members if len(export.members) == 1 else []):
        lines = [line for line in content.decode("utf-8", "replace").split("\n") if any(map(str.isalnum, line))]
        entries = [found["date"] for line in lines if (found := _ENTRY.match(line))]
        dated = sum(map(_is_date, entries))
        if len(entries) > 1 and 2 * len(entries) >= len(lines) and 2 * dated >= len(entries):
            return f"{where} whose lines are `[date] - memory`"
    return None


def _is_date(written: str) -> bool:
    """A day, or that it is not known. A log's lines have times, a changelog's versions, and a list of tasks has boxes."""
    try:
        date.fromisoformat(written.strip())
    except ValueError:
        return "unknown" in written.casefold()
    return True


def _at(written: str, source: Source, otherwise: float | None) -> float | None:
    try:
        return datetime.fromisoformat(written.strip()).replace(hour=12, tzinfo=source.zone).timestamp()
    except (ValueError, OverflowError):
        return otherwise
