"""The recalled lines of the prompt: which fit, how much of a long passage is shown, and in which order they stand.

The newest come first: where two lines say different things of the same, the reader meets the one that holds before the one that it replaced, and
the heading of each day dates both. Where a line certainly replaces another (changes.py), both say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.prompt.changes import changes
from shared.ranking.question import query_words
from shared.search.choosing import is_person
from shared.text.caches import cached
from shared.text.format import day_text, one_line, shorten
from shared.text.marks import harmless
from shared.text.words.function_words import plain
from shared.text.words.stemming import stemmed
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
#: Marks of a line that replaces another, and of one that is replaced, with the day of the newest.
NEWER, OLDER = " (newer)", " (older; newer: {})"
_SENTENCE_END = re.compile(r"(?<=[.!?…:])\s+|\n+")


@dataclass(frozen=True)
class Line:
    """A hit as it is injected, and its day's heading."""

    hit: Hit
    day: str
    text: str
    mark: str = ""

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
    shown = _shown(hit, message)
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
        mark,
    )


def _shown(hit: Hit, message: str) -> str:
    return excerpt(hit.chunk.text, message) if hit.chunk.passages > 1 else hit.chunk.text


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
    """(lines that fit, hits that do not), taken in the given order; a long one that does not fit is skipped for a shorter one.

    A line that replaces another is taken before it, and the older one only if the newer was; both are marked if their marks fit. `elsewhere` are hits
    that the prompt has already: they count as taken, and are not marked themselves.
    """
    pairs = _pairs(hits, elsewhere, message)
    known = {id(hit) for hit in elsewhere}
    used: dict[int, Line] = {}
    cut: list[Hit] = []
    days: set[str] = set()
    for hit in _newer_first(hits, pairs):
        newer = [by for older, by in pairs if older is hit]
        fitting: dict[int, Line] = {}
        # No line is rendered for a hit whose text alone is too long: most hits, once the room is nearly full.
        if _least(hit) < room and all(id(by) in known or id(by) in used for by in newer):
            update = any(by is hit and id(older) in known for older, by in pairs)
            for lines in _ways(hit, newer, update, used, zone, message):
                cost = sum(line.cost - (used[one].cost if one in used else 0) for one, line in lines.items())
                cost += 0 if lines[id(hit)].day in days else lines[id(hit)].heading
                if cost <= room:
                    fitting, room = lines, room - cost
                    break
        if fitting:
            used |= fitting
            days.add(fitting[id(hit)].day)
        else:
            cut.append(hit)
    return list(used.values()), cut


def _ways(
    hit: Hit, newer: Sequence[Hit], update: bool, used: Mapping[int, Line], zone: ZoneInfo, message: str
) -> Iterator[dict[int, Line]]:
    """How a hit can be shown, the best first: with marks of itself and of the lines that replace it, and without.

    `update`: it replaces something that the prompt has already.
    """
    if newer or update:
        latest = max((by.chunk.started_at for by in newer), default=0.0)
        mark = OLDER.format(day_text(latest, zone)) if newer else NEWER
        others = [by for by in newer if id(by) in used and not used[id(by)].mark]
        yield {id(hit): line_of(hit, zone, message, mark)} | {
            id(by): line_of(by, zone, message, NEWER) for by in others
        }
    yield {id(hit): line_of(hit, zone, message)}


def _pairs(hits: Sequence[Hit], elsewhere: Sequence[Hit], message: str) -> list[tuple[Hit, Hit]]:
    """(older, newer) hits by people of which the newer replaces the older."""
    people = [(hit, _shown(hit, message)) for hit in hits if is_person(hit)]
    people += [(hit, hit.chunk.text) for hit in elsewhere if is_person(hit)]
    found = changes(message, [(hit.chunk, said) for hit, said in people])
    return [(people[one.older][0], people[one.newer][0]) for one in found]


def _newer_first(hits: Sequence[Hit], pairs: Sequence[tuple[Hit, Hit]]) -> list[Hit]:
    """The given order, but with each hit that replaces another moved to just before it if it came after."""
    place = {id(hit): index for index, hit in enumerate(hits)}
    for older, newer in sorted(pairs, key=lambda pair: pair[0].chunk.started_at):
        if id(older) in place and id(newer) in place:
            place[id(newer)] = min(place[id(newer)], place[id(older)])
    return sorted(hits, key=lambda hit: (place[id(hit)], -hit.chunk.started_at))


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
