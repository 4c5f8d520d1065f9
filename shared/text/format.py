"""Small rules for text that a person or the model reads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

Item = TypeVar("Item")

#: Characters of one token, on average, in English with this kind of model. An estimate, used for budgets only.
CHARACTERS_PER_TOKEN = 4

#: Bars of a `sparkline`, the lowest first.
BARS = "▁▂▃▄▅▆▇█"
#: Code points of what counts as one character, at most: a family has ten, letters under a heap of accents a hundred.
LONGEST_CHARACTER = 256
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def tokens(text: str) -> int:
    """Estimated tokens of a text: characters / 4, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def utf16_units(text: str) -> int:
    """The length of a text in UTF-16 units, in which Telegram and Signal count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def storable(text: str) -> str:
    """The text as every database takes it: NUL and lone surrogates become U+FFFD. (The archive keeps what was really said.)"""
    return _UNSTORABLE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """All white space folded to single blanks."""
    return " ".join(text.split())


def cut(text: str, characters: int) -> str:
    """At most so many characters of a text, none of which is divided: a flag, a family or an accented letter may be several code points."""
    if len(text) <= characters or text[characters - 1 : characters + 1].isascii():
        return text[:characters]
    end = start = max(0, *(text.rfind(blank, 0, characters) for blank in " \n"))
    for border in _borders(text[: characters + 1], start):
        if border > characters:
            break
        end = border
    return text[: end or characters]


def cut_end(text: str, characters: int) -> str:
    """The same of its end."""
    start = len(text) - characters
    if start <= 0 or text[start - 1 : start + 1].isascii():
        return text[max(0, start) :]
    begun = max(0, *(text.rfind(blank, 0, start) for blank in " \n"))
    return text[next((border for border in _borders(text, begun) if start <= border < len(text)), start) :]


def _borders(text: str, start: int) -> Iterator[int]:
    """Where each character ends. Asked of pieces, since in a row of flags `regex` would read back to the first one at each of them."""
    import regex  # type: ignore[import-untyped]  # most texts need it not

    while start < len(text):
        piece = text[start : start + LONGEST_CHARACTER]
        ends = [one.end() for one in regex.finditer(r"\X", piece)]
        if start + len(piece) < len(text) and len(ends) > 1:
            ends.pop()  # it may go on
        yield from (start + end for end in ends)
        start += ends[-1]


def shorten(text: str, characters: int) -> str:
    """At most `characters` of a text, cut at a word where there is one, with an ellipsis."""
    if len(text) <= characters:
        return text
    kept = cut(text, max(0, characters - 1))
    head, _, _ = kept.rpartition(" ")
    return (head if len(head) > characters // 2 else kept).rstrip() + "…"


def day_text(timestamp: float, zone: ZoneInfo) -> str:
    """`8 May 2023`, in the zone; the month in English (the program sets no locale)."""
    moment = datetime.fromtimestamp(timestamp, zone)
    return f"{moment.day} {moment:%B %Y}"


def date_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).date().isoformat()


def time_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20 14:05`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).strftime("%Y-%m-%d %H:%M")


def zoned_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20 14:05 (Europe/Berlin)`: where a host's owner reads it, whose own clock may be another one."""
    return f"{time_text(timestamp, zone)} ({zone.key})"


def size_text(count: int) -> str:
    """Bytes for people: `79.3 MiB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 turn`, `2,000 turns`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def rough_duration(seconds: float) -> str:
    """In one unit: `0.4 s`, `12 s`, `3 min`, `5 hours`, `2 days`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def sparkline(values: Sequence[float | None]) -> str:
    """One bar for each value, the largest the highest; a space for an unknown one."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else BARS[round(value / most * (len(BARS) - 1))] for value in values)


def line_size(line: Any) -> int:
    """The characters of a line and its end."""
    return len(line) + 1


def fitting(items: Sequence[Item], room: int, *, newest: bool, size: Callable[[Item], int] = line_size) -> list[Item]:
    """The first of these (or the last, if `newest`) whose sizes together are at most `room`, in their order."""
    found = list[Item]()
    for item in reversed(items) if newest else items:
        room -= size(item)
        if room < 0:
            break
        found.append(item)
    return found[::-1] if newest else found


def in_batches(items: Iterable[Item], most: int, size_of: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """The items in lists, each of them full once the sizes of its items come to `most`."""
    batch, size = list[Item](), 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
