"""A note in Markdown, in the pieces that are one statement each: a list item with what is indented below it, or a paragraph.

Its front matter is read line by line, and only for single values: YAML as a whole can do more than a note from anybody should (aliases, tags).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# None of these looks ahead over more than a few characters: a line may be megabytes long.
_FIELD = re.compile(r"([A-Za-z_][\w-]{0,63}):[ \t]")
_HEADING = re.compile(r"(#{1,6})(?=[ \t])")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
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
