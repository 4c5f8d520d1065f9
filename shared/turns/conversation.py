"""A chat as a document in Markdown that a person reads: days, and under each who said what when.

What people and models say is Markdown itself, or looks like it. So each text is a block quote, and in it nothing can reach out of the quote:

* a line of any kind begins with the mark of the quote;
* fenced code is fenced anew, by a fence that its lines do not hold, and closed where the text ends;
* outside of code no tag and no comment of HTML begins, and no link is defined (both would count in the whole document).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from urllib.parse import quote
from zoneinfo import ZoneInfo

from shared.text.format import day_text, one_line
from shared.turns.media_files import FOLDER, FileNames, files_of, is_picture
from shared.turns.message_origin import QUOTE_CHARACTERS, Origin
from shared.turns.origin_words import replying, said_by
from shared.turns.records import Turn
from shared.turns.speakers import Speaker

#: What means something within a line.
_MARKS = re.compile(r"([\\`*_\[\]<>&|~$])")
_FENCE = re.compile(r"(?P<indent>\s*)(?P<mark>`{3,}(?!.*`)|~{3,})\s*(?P<language>[\w+#.-]{0,40})")
#: `<` where a tag, a comment or an address in pointed brackets would begin, with the backslashes ahead of it.
_TAG = re.compile(r"(\\*)<(?=[A-Za-z/!?])")
#: What no file in UTF-8 holds, and what a terminal obeys.
_UNWRITABLE = re.compile(r"[\ud800-\udfff\x00-\x08\x0e-\x1b\x7f]")


def conversation(
    chat_id: str,
    turns: Iterable[Turn],
    zone: ZoneInfo,
    marks: Mapping[Speaker, str] | None = None,
    files: FileNames | None = None,
) -> Iterator[str]:
    """The document, piece by piece; the turns in the order of time. `marks` tell people of one name apart (shared/turns/speakers.py). `files`: those
    beside the document, which it links."""
    yield f"# Chat {inline(chat_id)}\n\nTimes are those of {inline(zone.key)}.\n"
    day = ""
    for turn in turns:
        this = day_text(turn.timestamp, zone)
        if this != day:
            day = this
            yield f"\n## {day}\n"
        who = f"{turn.speaker} {(marks or {}).get(turn.person, '')}"
        origin = about(turn.origin)
        ahead = f"\n**{datetime.fromtimestamp(turn.timestamp, zone):%H:%M} {inline(who)}**"
        yield f"{ahead}{f' {inline(origin)}' if origin else ''}\n\n{quoted(turn.remembered)}\n{''.join(_links(turn, files or {}))}"


def _links(turn: Turn, files: FileNames) -> Iterator[str]:
    """The names are ours, and have no character that means anything; not in ASCII they are written as addresses are."""
    for _, name in files_of(turn, files):
        yield f"\n{'!' if is_picture(name) else ''}[{inline(name)}]({FOLDER}/{quote(name)})\n"


def about(origin: Origin) -> str:
    """What of a turn stands behind its speaker: whose words they are, what they reply to, what came with them."""
    came = f" (with a {origin.attachment.kind})" if origin.attachment else ""
    return f"{said_by('', origin)}{replying(origin, QUOTE_CHARACTERS)}{came}".strip()


def inline(text: str) -> str:
    """A text within a line of ours: on one line, and nothing in it means anything."""
    shown = "".join(character for character in one_line(text) if character.isprintable())
    return _MARKS.sub(r"\\\1", shown) or "\ufffd"


def quoted(text: str) -> str:
    """A text as a block quote."""
    return "\n".join(f"> {line}" if line else ">" for line in _lines(text)) or ">"


def _lines(text: str) -> Iterator[str]:
    lines = iter(_UNWRITABLE.sub("\ufffd", text).splitlines())
    for line in lines:
        fence = _FENCE.match(line)
        if fence:
            yield from _code(fence, lines)
        else:
            yield _prose(line)


def _code(fence: re.Match[str], lines: Iterator[str]) -> Iterator[str]:
    """The lines up to the one that closes the fence, or to the end, in a fence of our own."""
    mark = fence["mark"]
    closing = re.compile(rf"\s*{re.escape(mark)}{re.escape(mark[0])}*\s*\Z")
    body = [line.removeprefix(fence["indent"]) for line in takewhile(lambda line: not closing.match(line), lines)]
    longest = max((len(run) for line in body for run in re.findall("`+", line)), default=0)
    ours = "`" * max(3, longest + 1)
    yield ours + fence["language"]
    yield from body
    yield ours


def _prose(line: str) -> str:
    """A line outside of code; the two blanks at its end keep the lines apart."""
    escaped = _TAG.sub(lambda found: found[1] + ("<" if len(found[1]) % 2 else "\\<"), line)
    escaped = escaped.replace("]:", "]\\:").rstrip()
    return escaped + "  " if escaped else ""
