"""An answer in Markdown as messages that Telegram accepts: text of at most 4,096 UTF-16 units with its formatting as entities.

Entities rather than HTML or MarkdownV2: there is no markup that Telegram could refuse to parse or that a split could break; a code block
that is split becomes two entities. telegramify-markdown finds them, with four precautions, all measured with 1.4.1:

* It drops HTML (`<div>…</div>`, `List<String>` outside code), decodes `&amp;`, reads `||` as a spoiler, `$` as mathematics and `[^` as a
  footnote. These characters are replaced with private-use characters of the same length before the call and restored afterwards.
* It may lose words (link definitions, titles of links) or grow (nested lists: 6 KB became 9 MB). Its output is used only if every
  letter, digit and symbol of the answer is there in order and it has not grown much; else the answer is sent as plain text.
* It numbers lists anew from their first number. Where that changes a number, the signs behind the numbers are disguised in the same way.
* It raises on a lone surrogate. Such characters become U+FFFD, and control characters, which Telegram refuses, are removed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from shared.text.format import cut, cut_end, utf16_units
from shared.text.logs import Logger
from shared.turns.records import well_formed

log = Logger()

#: Telegram's limit of a message, in UTF-16 units.
LONGEST = 4096
#: An answer longer than this is sent as plain text: its conversion would block everything else for too long.
LONGEST_FORMATTED = 200_000
#: Characters by which formatting may lengthen an answer, in addition to an eighth of it (lines of tables, bullets of lists).
GROWTH = 2_000

#: What the library must not read as markup, and the replacement that it passes through as text. Same length in UTF-16 units.
_DISGUISES = (("||", "\uf8f0\uf8f1"), ("[^", "[\uf8f2"), ("<", "\uf8f3"), ("&", "\uf8f4"), ("$", "\uf8f5"))
_DISGUISED = re.compile("[\uf8f0-\uf8f7]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
#: Numbers of list items may change, and task boxes become symbols.
_LIST_SIGNS = re.compile(r"^[ \t>*+-]*(?:[0-9]{1,9}[.)](?=\s|$)|\[[ xX]\])", re.MULTILINE)
#: A numbered line: what is ahead of the number, the number, and the sign behind it.
_NUMBERED = re.compile(r"^([ \t>*+•-]*)([0-9]{1,9})([.)])(?=\s|$)", re.MULTILINE)
_SIGNS = {".": "\uf8f6", ")": "\uf8f7"}
_MARKUP = frozenset(string.punctuation + string.whitespace)


@dataclass(frozen=True)
class MessagePart:
    """One message. Offsets and lengths of entities are in UTF-16 units of its text."""

    text: str
    entities: list[dict[str, Any]] = field(default_factory=list)

    @property
    def plain(self) -> MessagePart:
        return replace(self, entities=[])


def parts_of(answer: str) -> list[MessagePart]:
    """The messages of an answer in Markdown; deterministic."""
    text = readable(answer)
    return _split(*(_formatted(text) or (text, [])))


def last_part(answer: str, doing: str = "") -> MessagePart:
    """What is shown of an answer in Markdown while it is written: the end of it that fits, and below, in italics, what is being done."""
    text, line = readable(answer.rstrip()), readable(doing)
    shown, entities = _formatted(text) or (text, [])
    start = _start_of_end(shown, LONGEST - utf16_units(line) - 2)
    part = _part(shown, start, len(shown), entities, utf16_units(shown[:start]))
    if not line:
        return part
    above = f"{part.text}\n\n" if part.text.strip() else ""
    italic = {"type": "italic", "offset": utf16_units(above), "length": utf16_units(line)}
    return MessagePart(above + line, [*(part.entities if above else []), italic])


def _start_of_end(text: str, longest: int) -> int:
    """Where the end of a text begins that fits. It moves in steps, and to a new line: what is read stays where it is."""
    start = 0
    while utf16_units(text[start:]) > longest:
        start += longest // 2
    line = text.find("\n", start, start + longest // 4) if start else -1
    return line + 1 if line > 0 else len(text) - len(cut_end(text, len(text) - start))


def plain_parts(text: str) -> list[MessagePart]:
    """The messages of a plain text."""
    return _split(readable(text), [])


def readable(text: str) -> str:
    """The text without the characters that Telegram refuses."""
    return well_formed(_CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def _formatted(text: str) -> tuple[str, list[dict[str, Any]]] | None:
    """(text, entities), or None where the library fails or loses something."""
    if len(text) > LONGEST_FORMATTED or _DISGUISED.search(text):
        return None
    try:
        shown, entities = _convert(text)
        if _renumbered(text, shown):
            shown, entities = _convert(_NUMBERED.sub(lambda one: one[1] + one[2] + _SIGNS[one[3]], text))
    except Exception as error:  # noqa: BLE001 - a parser of foreign text may raise anything
        log.warning("an answer is sent as plain text, because its formatting failed", error=type(error).__name__)
        return None
    if len(shown) > len(text) * 9 // 8 + GROWTH or not _holds(shown, entities, text):
        return None
    return shown, entities


def _renumbered(source: str, shown: str) -> bool:
    """Whether a list got other numbers than it was given: a number may be the name of something. One whose numbers are all equal asks for that."""
    numbers = [one[2] for one in _NUMBERED.finditer(source)]
    return len(set(numbers)) > 1 and numbers != [one[2] for one in _NUMBERED.finditer(shown)]


def _convert(text: str) -> tuple[str, list[dict[str, Any]]]:
    from telegramify_markdown import RenderConfig, convert

    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.image = symbols.link = ""
    symbols.task_completed, symbols.task_uncompleted, symbols.unordered_list_item = "☑", "☐", "•"
    for plain, disguise in _DISGUISES:
        text = text.replace(plain, disguise)
    shown, entities = convert(text, latex_escape=False, config=config)
    return _undisguise(shown), [_entity(one.to_dict()) for one in entities]


def _entity(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _undisguise(value) if isinstance(value, str) else value for name, value in found.items()}


def _undisguise(text: str) -> str:
    for plain, disguise in (*_DISGUISES, *_SIGNS.items()):
        text = text.replace(disguise, plain)
    return text


def _holds(shown: str, entities: list[dict[str, Any]], source: str) -> bool:
    """Whether everything but markup is still there, in order; URLs and languages count at the position of their entity."""
    bounds, inserted = _bounds(shown), []
    for entity in entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        inserted += [(start, entity.get("language", "")), (end, entity.get("url", ""))]
    pieces, last = [], 0
    for offset, words in sorted(inserted, key=lambda one: one[0]):
        place = bounds[offset]
        pieces += [shown[last:place], words]
        last = place
    there = iter("".join([*pieces, shown[last:]]))
    return all(character in there for character in _LIST_SIGNS.sub("", source) if character not in _MARKUP)


def _bounds(text: str) -> list[int]:
    """Position in the text for each offset in UTF-16 units."""
    bounds = []
    for position, character in enumerate(text):
        bounds += [position] * (2 if character > "\uffff" else 1)
    return [*bounds, len(text)]


def _split(text: str, entities: list[dict[str, Any]]) -> list[MessagePart]:
    return [
        _part(text, start, end, entities, utf16_units(text[:start]))
        for start, end in _pieces(text)
        if text[start:end].strip()
    ]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where to split: after a line, else after a word, else at the limit."""
    start = 0
    while start < len(text):
        end = min(len(text), start + LONGEST)
        while (over := utf16_units(text[start:end]) - LONGEST) > 0:
            end -= (over + 1) // 2
        if end < len(text):
            early = start + (end - start) // 2  # a message of only a few words reads worse than a split word
            line, word = text.rfind("\n", early, end), text.rfind(" ", early, end)
            border = line if line > 0 else word
            end = border + 1 if border > 0 else start + len(cut(text[start:], end - start))
        yield start, end
        start = end


def _part(text: str, start: int, end: int, entities: list[dict[str, Any]], offset: int) -> MessagePart:
    """A piece without the line breaks at its edges, with the entities clipped to it."""
    piece = text[start:end].rstrip("\n")
    leading = len(piece) - len(piece.lstrip("\n"))
    first, last = offset + leading, offset + utf16_units(piece)
    clipped = []
    for entity in entities:
        begin, stop = max(first, entity["offset"]), min(last, entity["offset"] + entity["length"])
        if begin < stop:
            clipped.append(entity | {"offset": begin - first, "length": stop - begin})
    return MessagePart(piece[leading:], clipped)
