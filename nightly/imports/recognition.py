"""What stands at the beginning of an export, by which a format recognises it. Little is read, and whatever cannot be read is passed over."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, printable
from nightly.imports.json_stream import JsonStream
from shared.text.format import shorten
from shared.turns.records import RecordRefused, loads_object

#: Files of an archive or a directory.
_MOST_FILES = 20
_LONGEST_NAME = 80


def beginnings(export: Export, members: list[Member]) -> Iterator[tuple[str, bytes]]:
    """(how the file is spoken of, its beginning) of the first of these."""
    for member in islice(members, _MOST_FILES):
        with suppress(RecordRefused):
            holder = "a ZIP" if export.is_zip else "a directory"
            named = f"{holder} with {printable(shorten(member.name, _LONGEST_NAME))}"
            yield "a file" if export.alone else named, member.beginning


def outlines(export: Export, *patterns: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The same of JSON documents whose name fits, with the paths of the values in it: `[].title`, `messages.[].id`."""
    for where, content in beginnings(export, export.fitting(*patterns)):
        if content.lstrip()[:1] in (b"[", b"{"):
            yield where, _outline(content)


@lru_cache(maxsize=_MOST_FILES)
def _outline(content: bytes) -> frozenset[str]:
    """Several formats look at the same file."""
    return JsonStream(io.BytesIO(content)).outline()


def first_records(export: Export, *patterns: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The same for JSON lines, with the objects among them."""
    for where, content in beginnings(export, export.fitting(*patterns)):
        records = list[dict[str, Any]]()
        for line in content.splitlines():
            with suppress(RecordRefused):
                records.append(loads_object(line))
        yield where, records
