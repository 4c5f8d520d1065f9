"""The recalled lines of the prompt: which fit, how much of a long passage is shown, and in which order they stand.

The newest come first: where two lines say different things of the same, the reader meets the one that holds before the one that it replaced, and
the heading of each day dates both. Where a line certainly replaces another (changes.py), both say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.prompt.changes import changes
from shared.ranking.question import query_words
from shared.search.choosing import is_person
from shared.text.caches import cached
from shared.text.format import day_text, one_line, shorten
from shared.text.function_words import plain
from shared.text.marks import harmless
from shared.text.stemming import stemmed
from shared.turns.origin_words import replying
from shared.turns.speakers import answering

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.search.types import Hit

#: An answer up to this length is hardly understandable without its question, of which this many characters are shown. Showing up to 160 characters
#: of the question with every answer would leave room for fewer turns.
SHORT_ANSWER_CHARACTERS, QUESTION_CHARACTERS = 60, 80
#: Approximate cost of a recalled line in addition to its text: its speaker, and its part of a day's heading.
LINE_CHARACTERS = 60
#: A passage of a long turn is cut to its sentences with most words of the message, in so many characters, if it is longer than LONG_PASSAGE.
EXCERPT, LONG_PASSAGE = 450, 600
#: Marks of a line that replaces another, and of one that is replaced, with the day of the newest; and the most characters of a mark.
NEWER, OLDER = " (newer)", " (older; newer: {})"
MARK_CHARACTERS = len(OLDER.format("30 September 2026"))
_SENTENCE_END = re.compile(r"(?<=[.!?…:])\s+|\n+")


@dataclass(frozen=True)
class Line:
    """A hit as it is injected, and its day's heading."""

    hit: Hit
    day: str
    text: str
    said: str  # what is shown of the hit's text

    @property
    def cost(self) -> int:
        """Characters with the line break."""
        return len(self.text) + 1

    @property
    def heading(self) -> int:
        """Characters of the day's heading, likewise."""
        return len(self.day) + 1


def line_of(hit: Hit, zone: ZoneInfo, message: str = "", mark: str = "") -> Line:
    """`- Name: text`, with a mark of ours after the name, the question of a short answer, and dots where the turn goes on beside what is shown."""
    chunk = hit.chunk
    shown = excerpt(chunk.text, message) if chunk.passages > 1 else chunk.text
    text = one_line(shown)
    asked = ""
    if hit.question and len(text) <= SHORT_ANSWER_CHARACTERS:
        asked = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS))
    asked = asked or replying(chunk.origin)
    before = "… " if chunk.passage > 1 or not chunk.text.startswith(shown) else ""
    after = " …" if chunk.passage < chunk.passages or not chunk.text.endswith(shown) else ""
    return Line(
        hit,
        day_text(chunk.started_at, zone),
        harmless(f"- {hit.who}{mark}{asked}: {before}{text}{after}"),
        shown,
    )


def excerpt(text: str, message: str) -> str:
    """The sentences in a row, at most EXCERPT characters of them, that have most of the message's words, and as many after them as fit.

    The whole text if it is not long, or if no such sentences have any of the words: then what is similar in it is not known.
    """
    asked = _stems(message)
    if len(text) <= LONG_PASSAGE or not asked:
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


def by_worth(hits: Sequence[Hit]) -> list[Hit]:
    """The order in which lines are taken, by rank times length: a lower rank is worth less, and a longer line costs more.

    The length is that of the whole passage, also where less of it is shown: a long turn does not get ahead of short ones by being cut.
    """
    order = sorted(range(len(hits)), key=lambda rank: (rank + 1) * (LINE_CHARACTERS + len(hits[rank].chunk.text)))
    return [hits[rank] for rank in order]


def fill(
    hits: Sequence[Hit], room: int, zone: ZoneInfo, message: str = "", elsewhere: Sequence[Hit] = ()
) -> tuple[list[Line], list[Hit]]:
    """(lines that fit, hits that do not), taken in the given order, and marked where one replaces another.

    `elsewhere` are hits that the prompt has already: a line that one of them replaces is marked, too.
    """
    known = [line_of(hit, zone) for hit in elsewhere]
    used, cut = _fill(hits, room, zone, message)
    pairs = _pairs([*used, *known], message)
    if not pairs:
        return used, cut
    marked = {chunk_id for pair in pairs for chunk_id in pair}
    used, cut = _fill(hits, room - MARK_CHARACTERS * len(marked), zone, message)
    days = {line.hit.chunk.chunk_id: (line.hit.chunk.started_at, line.day) for line in (*used, *known)}
    marks: dict[str, str] = {}
    for older, newer in sorted((pair for pair in pairs if days.keys() >= set(pair)), key=lambda pair: days[pair[1]]):
        marks.setdefault(newer, NEWER)
        marks[older] = OLDER.format(days[newer][1])  # in the end the newest of those that replace it
    return [_marked(line, marks.get(line.hit.chunk.chunk_id, ""), zone, message) for line in used], cut


def _marked(line: Line, mark: str, zone: ZoneInfo, message: str) -> Line:
    return line_of(line.hit, zone, message, mark) if mark else line


def _pairs(lines: Sequence[Line], message: str) -> list[tuple[str, str]]:
    """(older, newer) chunk ids of lines by people of which the newer replaces the older."""
    people = [line for line in lines if is_person(line.hit)]
    found = changes(message, [(line.hit.chunk, line.said) for line in people])
    return [(people[one.older].hit.chunk.chunk_id, people[one.newer].hit.chunk.chunk_id) for one in found]


def _fill(hits: Sequence[Hit], room: int, zone: ZoneInfo, message: str) -> tuple[list[Line], list[Hit]]:
    """(lines that fit, hits that do not), taken in the given order; a long one that does not fit is skipped for a shorter one."""
    used: list[Line] = []
    cut: list[Hit] = []
    days: set[str] = set()
    for hit in hits:
        # No line is rendered for a hit whose text alone is too long: most hits, once the room is nearly full.
        line = line_of(hit, zone, message) if _least(hit) < room else None
        cost = line.cost + (0 if line.day in days else line.heading) if line else room + 1
        if line is None or cost > room:
            cut.append(hit)
            continue
        used.append(line)
        days.add(line.day)
        room -= cost
    return used, cut


def _least(hit: Hit) -> int:
    """Characters under which its text is hardly shown."""
    length = len(hit.chunk.text)
    return min(length, SHORT_ANSWER_CHARACTERS) if hit.chunk.passages > 1 and length > LONG_PASSAGE else length


def newest_first(lines: Sequence[Line], zone: ZoneInfo) -> str:
    """Lines under each day, both the newest first; a question stays ahead of its answer, and the passages of a turn in their order.

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
    day = ""
    for line in sorted(lines, key=place):
        text += [line.text] if line.day == day else [line.day, line.text]
        day = line.day
    return "\n".join(text)
