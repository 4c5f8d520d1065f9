"""A note in Markdown, in the pieces that are one statement each: a list item with what is indented below it, or a paragraph.

Its front matter is read line by line, and only for single values: YAML as a whole can do more than a note from anybody should (aliases, tags).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FIELD = re.compile(r"([A-Za-z_][\w-]{0,63}):[ \t]+(\S.*?)[ \t]*\Z")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*\Z")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
#: Lines of front matter that are looked at.
_MOST_FIELDS = 200


@dataclass(frozen=True)
class Piece:
    """`headings`: those that it stands under, without the first-level one, the outermost first. `line`: its first one, from 1."""

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
    fields = (_FIELD.match(line.rstrip("\r")) for line in lines[1:end])
    return {one[1].lower(): _value(one[2]) for one in fields if one}, "\n".join(lines[end + 1 :]), end + 1


def _value(written: str) -> str:
    for quote in "\"'":
        if len(written) > 1 and written[0] == written[-1] == quote:
            return written[1:-1].replace(quote * 2 if quote == "'" else '\\"', quote)
    return written


def pieces(text: str, before: int = 0) -> Iterator[Piece]:
    """`before`: lines ahead of the text in its file."""
    headings = dict[int, str]()
    held, begun, fence = list[str](), 0, ""

    def piece() -> Iterator[Piece]:
        words = _without_mark("\n".join(held)).strip()
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
        heading = _HEADING.match(line)
        # A blank line ends a paragraph; an item goes on below it, as far as that is indented.
        ends = heading or _ITEM.match(line) or not line or (held and not held[-1] and not line.startswith((" ", "\t")))
        if ends and not (not line and held and _ITEM.match(held[0])):
            yield from piece()
        if heading:
            headings = {level: name for level, name in headings.items() if level < len(heading[1])}
            headings[len(heading[1])] = heading[2]
            continue
        if line or held:
            begun = begun if held else number
            held.append(line)
        fence = opened[1] if opened else ""
    yield from piece()


def _without_mark(text: str) -> str:
    return _ITEM.sub("", text, count=1) if _ITEM.match(text) else text
