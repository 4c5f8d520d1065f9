"""The recalled lines of the prompt: which fit, how much of a long passage is shown, and in which order they stand.

The newest come first: where two lines say different things of the same, the reader meets the one that holds before the one that it replaced, and
the heading of each day dates both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from shared.ranking.question import query_words
from shared.text.caches import cached
from shared.text.format import day_text, one_line, shorten
from shared.text.marks import harmless
from shared.text.words.function_words import plain
from shared.text.words.stemming import stemmed
from shared.turns.chunking import FENCED
from shared.turns.origin_words import replying
from shared.turns.speakers import answering

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.search.types import Hit

#: An answer up to this length is hardly understandable without its question, of which this many characters are shown. Showing up to 160 characters
#: of the question with every answer would leave room for fewer turns.
SHORT_ANSWER_CHARACTERS, QUESTION_CHARACTERS = 60, 80
#: A passage of a long turn is cut to its sentences with most words of the message, in so many characters, if it is longer than LONG_PASSAGE.
EXCERPT, LONG_PASSAGE = 450, 600
_SENTENCE_END = re.compile(r"(?<=[.!?…:])\s+|\n+")


@dataclass(frozen=True)
class Line:
    """A hit as it is injected, and its day's heading; `asked` is the part of its label that names the question which it answers."""

    hit: Hit
    day: str
    text: str
    asked: str = ""

    @property
    def cost(self) -> int:
        """Characters with the line break."""
        return len(self.text) + 1

    @property
    def heading(self) -> int:
        """Characters of the day's heading, likewise."""
        return len(self.day) + 1


def line_of(hit: Hit, zone: ZoneInfo, message: str = "") -> Line:
    """`- Name: text`, with the question of a short answer after the name, and dots where the turn goes on beside what is shown."""
    chunk = hit.chunk
    shown = excerpt(chunk.text, message) if chunk.passages > 1 else chunk.text
    text = as_said(shown)
    question = ""
    if hit.question and len(text) <= SHORT_ANSWER_CHARACTERS:
        question = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS))
    asked = question or replying(chunk.origin)
    before = "… " if chunk.passage > 1 or not chunk.text.startswith(shown) else ""
    after = " …" if chunk.passage < chunk.passages or not chunk.text.endswith(shown) else ""
    return Line(
        hit,
        day_text(chunk.started_at, zone),
        harmless(f"- {hit.who}{asked}: {before}{text}{after}"),
        harmless(question),
    )


def as_said(text: str) -> str:
    """The text on one line, but code in fences line by line as it was said, each behind `| `: so no line of it begins as one of ours does."""
    *blocks, rest = FENCED.split(text)
    shown = one_line(rest)
    if not blocks:
        return shown
    parts = [
        "\n".join(f"| {line}".rstrip() for line in part.strip("\n").split("\n")) if number % 2 else one_line(part)
        for number, part in enumerate(blocks)
    ]
    return "\n".join([parts[0], *(part for part in [*parts[1:], f"  {shown}" if shown else ""] if part)])


def excerpt(text: str, message: str) -> str:
    """The sentences in a row, at most EXCERPT characters of them, that have most of the message's words, and as many after them as fit.

    The whole text if it is not long, has code, or if no such sentences have any of the words: then what is similar in it is not known.
    """
    asked = _stems(message)
    if len(text) <= LONG_PASSAGE or not asked or FENCED.search(text):
        return text
    ends = [found.span() for found in _SENTENCE_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    sentences = list(zip(starts, [*(start for start, _ in ends), len(text)], strict=True))
    words = [asked & _stems(text[start:end]) for start, end in sentences]
    best, most = (0, len(text)), 0
    for first, (start, _) in enumerate(sentences):
        told: set[str] = set()
        for (_, end), found in zip(sentences[first:], words[first:], strict=True):
            if end - start > EXCERPT:
                break
            told |= found
            if len(told) > most or (most and len(told) == most and start == best[0]):
                best, most = (start, end), len(told)
    return text[slice(*best)]


@cached(256)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stemmed(plain(word)) for word in query_words(text))


def fill(hits: Sequence[Hit], room: int, zone: ZoneInfo, message: str = "") -> tuple[list[Line], list[Hit]]:
    """(lines that fit, hits that do not), taken in the given order; a long one that does not fit is skipped for a shorter one."""
    used: list[Line] = []
    cut: list[Hit] = []
    days: set[str] = set()
    for hit in hits:
        line = line_of(hit, zone, message)
        cost = line.cost + (0 if line.day in days else line.heading)
        if cost > room:
            cut.append(hit)
            continue
        used.append(line)
        days.add(line.day)
        room -= cost
    return used, cut


def newest_first(lines: Sequence[Line], zone: ZoneInfo) -> str:
    """Lines under each day, both the newest first; a question stays ahead of its answer, which then does not repeat it, and the passages of a turn in
    their order.

    With an earlier ranking, at 2,000 tokens, a date on every line cost 1.1 points, the hour 0.8.
    """
    latest: dict[tuple[str, str], float] = {}
    for line in lines:
        talk = line.day, line.hit.chunk.exchange
        latest[talk] = max(latest.get(talk, line.hit.chunk.started_at), line.hit.chunk.started_at)

    def place(line: Line) -> tuple[int, float, str, float, bool, int, str]:
        chunk = line.hit.chunk
        day = datetime.fromtimestamp(chunk.started_at, zone).toordinal()
        ended = latest[line.day, chunk.exchange]
        return -day, -ended, chunk.exchange, chunk.started_at, chunk.role != "user", chunk.passage, chunk.chunk_id

    text: list[str] = []
    above: Line | None = None
    for line in sorted(lines, key=place):
        if above is None or line.day != above.day:
            text.append(line.day)
        answered = above is not None and above.hit.chunk.exchange == line.hit.chunk.exchange
        text.append(line.text.replace(line.asked, "", 1) if line.asked and answered else line.text)
        above = line
    return "\n".join(text)
