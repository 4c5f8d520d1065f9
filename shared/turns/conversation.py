"""A chat as a document in Markdown that a person reads: days, and under each who said what when.

What people and models say is Markdown itself, or looks like it. So each text is a block quote, and in it nothing can reach out of the quote:

* a line of any kind begins with the mark of the quote;
* fenced code is fenced anew, by a fence that its lines do not hold, and closed where the text ends;
* outside of code no tag and no comment of HTML begins, and no link is defined (both would count in the whole document).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from urllib.parse import quote
from zoneinfo import ZoneInfo

from shared.text.format import day_text, one_line
from shared.turns.media import Media
from shared.turns.message_origin import QUOTE_CHARACTERS, Origin
from shared.turns.origin_words import replying, said_by
from shared.turns.records import Turn
from shared.turns.speakers import Speaker

# ── Names of messages' files in an export: readable, and ours. Whatever the sender called a file, its name here is a plain one.
#
#     2026-02-09_14-30_holiday-photo.jpg        when it was sent, what it was called, and an ending that follows from its type alone
#
# An ending decides which program opens a file, so none comes from the sender, and none means more than a picture, a sound, a text or a document: a
# page or a script is text (`.txt`), what is not known is `.bin`.


#: The folder of an export, beside the conversation, and the file that says whose each is.
FOLDER, INDEX = "media", "media.jsonl"
#: (task id, SHA-256) → name of the file; for each that was written.
FileNames = Mapping[tuple[str, str], str]
#: Of files that are shown in the conversation.
PICTURE_ENDINGS = (".jpg", ".png", ".gif", ".webp")
#: Longest part of a name that comes from the sender. Bytes of UTF-8.
NAME_BYTES = 60

_ENDINGS = {
    "image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp",
    "audio/ogg": "ogg", "audio/opus": "ogg", "audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/x-m4a": "m4a", "audio/aac": "aac", "audio/wav": "wav",
    "audio/x-wav": "wav", "audio/flac": "flac", "audio/webm": "weba", "video/mp4": "mp4", "video/webm": "webm", "video/quicktime": "mov",
    "application/pdf": "pdf", "text/csv": "csv", "application/json": "json", "application/rtf": "rtf", "application/epub+zip": "epub",
    "application/msword": "doc", "application/vnd.ms-excel": "xls", "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt", "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
}  # fmt: skip


def ending_of(mime: str) -> str:
    return _ENDINGS.get(mime.lower()) or ("txt" if mime.lower().startswith("text/") else "bin")


class FileNamer:
    """Gives each file of one chat a name that no other has, also where letters of both cases are the same."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone, self._taken = zone, set[str]()

    def name(self, turn: Turn, one: Media) -> str:
        stem = f"{datetime.fromtimestamp(turn.timestamp, self._zone):%Y-%m-%d_%H-%M}_{_clean(one.name, one.kind)}"
        ending, number = ending_of(one.mime), 1
        while (name := f"{stem}{f'-{number}' if number > 1 else ''}.{ending}").casefold() in self._taken:
            number += 1
        self._taken.add(name.casefold())
        return name


def _clean(name: str | None, kind: str) -> str:
    """Letters, digits and single dashes, without the ending; the kind where nothing is left."""
    base = unicodedata.normalize("NFKC", name or "")
    stem, dot, _ = base.rpartition(".")
    words = re.findall(r"[^\W_]+", stem if dot else base)
    kept, size = list[str](), 0
    for word in words:
        size += len(word.encode()) + 1
        if size > NAME_BYTES:
            break
        kept.append(word)
    if words and not kept:
        kept = [words[0].encode()[:NAME_BYTES].decode("utf-8", "ignore")]
    return "-".join(kept) or kind.replace("_", "-")


def files_of(turn: Turn, names: FileNames) -> Iterator[tuple[Media, str]]:
    """The files of a turn that are in the export, with their names."""
    for one in {one.sha256: one for one in turn.media}.values():
        if name := names.get((turn.task_id, one.sha256)):
            yield one, name


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
        yield f"\n{'!' if name.endswith(PICTURE_ENDINGS) else ''}[{inline(name)}]({FOLDER}/{quote(name)})\n"


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
