"""What the model is given for one message, inside a budget of tokens and of time: facts, summary, recent turns, recalled lines.

Each part has a share of the budget, and what one does not use the others may. What is stable comes first and stays identical to the byte all
day: how much of the facts and of the summary goes in depends on the budget, on their own length and on whether anything is recalled, on nothing
else that is asked. Recalled lines get the rest, best first, and are put in the order of time under each day. The budget counts the whole text.

The numbers in the comments are shares of LoCoMo's questions whose evidence is wholly inside the injected text (five conversations,
786 questions, through the real night), at 1,000 and at 2,000 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.memory.conversation import Said as Said
from dispatcher.memory.conversation import said_lines
from dispatcher.prompt.render import Part, render, render_message
from dispatcher.prompt.summary_part import cut_summary, told_in
from shared.search.types import Hit, Recalled
from shared.text.format import CHARACTERS_PER_TOKEN, day_text, one_line, shorten, tokens
from shared.text.marks import harmless
from shared.turns.origin_words import replying
from shared.turns.speakers import Speaker, answering

#: The parts in the order in which they stand, and their shares of the budget where each wants all it can get. The summary's is 300 of 1,500 tokens
#: with its heading: it says what the chat is about where no line is recalled for it. It takes the place of evidence (docs/measurements.md).
SHARES: Mapping[str, float] = {"facts": 0.2, "summary": 0.21, "recent": 0.19, "relevant": 0.08, "recalled": 0.32}
#: Tokens from which on the summary has its whole share; below, it has as much less of it as the budget is smaller: evidence comes first.
WHOLE_SHARE_TOKENS = 1500
TITLES: Mapping[str, str] = {
    "facts": "Facts and goals",
    "summary": "Summary of earlier conversations",
    "recent": "This conversation so far",
    "relevant": "Memories that may bear on the present message",
    "recalled": "Earlier turns that may bear on the present message",
}
SUMMARY_TITLE, RECALLED_TITLE = TITLES["summary"], TITLES["recalled"]
#: The signals among a hit's scores that are no part of the sum.
RAW = ("bm25", "cosine")
#: Hits are asked for by the budget: one for so many tokens, and some at least. That is over twice what goes in (of short turns 19 into 1,000 tokens,
#: 37 into 2,000), since those that do not fit are passed over. 150 whatever the budget: .2 more at 2,000 tokens, half as much time again at 1,500.
TOKENS_PER_HIT, FEWEST_HITS = 16, 30
#: An answer up to this length is hardly understood without its question, and of the question so much is shown. With every answer, up to 160
#: characters of it, the same budget holds fewer turns.
SHORT_ANSWER_CHARACTERS, QUESTION_CHARACTERS = 60, 80
#: What a recalled line costs beside its words, about: its speaker, and its part of a day's heading.
LINE_CHARACTERS = 60


def hits_for(budget: int) -> int:
    """How many hits to ask for if so many tokens are to be filled."""
    return max(FEWEST_HITS, budget // TOKENS_PER_HIT)


def shared_out(budget: int, wishes: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """What each part gets of a budget (in any unit), in the order of `wishes`: its share, or its wish if that is less.

    What is left goes to those that wish for more, the greatest share first. The sum is at most the budget, no part gets more than its wish,
    and nothing is left while a wish is unmet. So a part beside a greater one that takes all it can get has exactly its share.
    """
    budget = max(0, budget)
    given = {part: min(wish, int(budget * shares[part])) for part, wish in wishes.items()}
    left = budget - sum(given.values())
    for part in sorted(wishes, key=lambda part: -shares[part]):
        more = min(left, wishes[part] - given[part])
        given[part] += more
        left -= more
    return given


@dataclass(frozen=True)
class Context:
    """The text to inject with what it is made of, and why it is not more.

    `cut` holds the hits that the budget left out, or all of them where `nothing_why` says that none bears on the message; `degraded` says what
    could not be asked.
    """

    text: str
    parts: list[Part] = field(default_factory=list)
    used: list[Hit] = field(default_factory=list)
    cut: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    release_run: int | None = None
    ms: float = 0.0
    nothing_why: str | None = None
    zone: ZoneInfo | None = None
    why: str | None = None  # by which evidence hits are told, or not
    speakers: tuple[Speaker, ...] = ()  # everybody of the chat
    nothing_plain: str | None = None  # `nothing_why` for the person in the chat, without figures and names of ours
    by_time: bool = False  # hits are told because they were said then
    summary_at: str | None = None  # when the chat's summary was made, ISO 8601 in the zone

    def placed(self, message: str, placement: str, ending: str = "") -> tuple[str, str]:
        """(text for the system prompt, message with what goes ahead of it).

        RECALL_PLACEMENT decides where stands what changes with each message: recalled lines, and `ending` after all memory.
        """
        if placement == "system":
            return "\n\n".join(filter(None, (self.text, ending))), message
        recalled = next((part for part in self.parts if part.name == "recalled"), None)
        rest = [part for part in self.parts if part.name != "recalled"]
        return render(rest), render_message(recalled, message, ending)

    @property
    def tokens(self) -> int:
        return tokens(self.text)

    def to_json(self) -> dict[str, Any]:
        return self.outline() | {
            "hits": [hit_json(hit, self.zone) for hit in self.used],
            "cut": [hit_json(hit, self.zone) for hit in self.cut],
            "text": self.text,
        }

    def outline(self) -> dict[str, Any]:
        """The same without any text."""
        return {
            "release": self.release_run,
            "tokens": self.tokens,
            "parts": [{"name": part.name, "tokens": tokens(part.body)} for part in self.parts],
            "nothing_why": self.nothing_why,
            "why": self.why,
            "degraded": self.degraded,
            "ms": round(self.ms, 2),
        }


def hit_json(hit: Hit, zone: ZoneInfo | None = None) -> dict[str, Any]:
    """A hit as scripts read it.

    `date` is ISO 8601 in the zone (UTC for none). `score` and of `scores` the `words` and `meaning` are what people are shown: 0 to 1, comparable
    between questions. `bm25` and `cosine` are the signals as they are, `rank` is what the hits are ordered by and `parts` what adds up to it;
    `also` are turns that say the same.
    """
    chunk = hit.chunk
    scores = {"words": hit.words, "meaning": hit.meaning} | {name: hit.scores.get(name) for name in RAW}
    return {
        "kind": "turn",
        "chunk_id": chunk.chunk_id,
        "turn_ids": list(chunk.turn_ids),
        "speaker": chunk.speaker,
        "user_id": chunk.user_id,
        "label": hit.who,
        "timestamp": chunk.started_at,
        "date": hit_date(hit, zone),
        "score": round(hit.score, 4),
        "scores": {name: _rounded(value) for name, value in scores.items()},
        "rank": round(hit.rank, 4),
        "parts": {name: _rounded(value) for name, value in hit.scores.items() if name not in RAW},
        "also": list(hit.also),
        "question": hit.question,
        "text": chunk.text,
        **chunk.origin.to_json(),
    }


def hit_date(hit: Hit, zone: ZoneInfo | None = None) -> str:
    """When it was said: ISO 8601 in the zone (UTC for none)."""
    return datetime.fromtimestamp(hit.chunk.started_at, zone or ZoneInfo("UTC")).isoformat(timespec="seconds")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def compose(
    recalled: Recalled,
    summary: str,
    *,
    budget: int,
    zone: ZoneInfo,
    run: int | None,
    recent: Sequence[Said] | None = None,
    facts: str = "",
    earlier: str = "",
    relevant: str = "",
    why_nothing: str | None = None,
    told: Sequence[Hit] | None = None,
    why: str | None = None,
) -> Context:
    """Fit all parts into a budget of tokens; stable parts first.

    `earlier` sums up sessions that ended a while ago, `relevant` are memories that bear on this message. `why_nothing`: no hit is worth its
    place, for this reason; `told` are those that are, best first (None: all); `why`: what was decided, and by which evidence.
    """
    characters = budget * CHARACTERS_PER_TOKEN
    hits = [] if why_nothing else recalled.hits if told is None else told
    degraded = list(recalled.degraded)

    def arranged(hits: Sequence[Hit]) -> tuple[list[Part], list[Hit], list[Hit]]:
        """(parts, hits that stand in them, hits that do not); hits in the order of rank."""
        parts = _stable(facts, summary, characters, talking=recent is not None or bool(earlier), recalling=bool(hits))
        there = _told_by_summary(parts, hits, zone)
        rest = [hit for place, hit in enumerate(hits) if place not in there]
        if recent or earlier:
            parts += _recent(recent or (), earlier, characters - (len(render(parts)) or _frames()[0]), rest, zone)
        if relevant and (text := _cut_lines(relevant, int(characters * SHARES["relevant"]))):
            parts.append(Part("relevant", TITLES["relevant"], text))
        room = characters - len(render([*parts, Part("recalled", RECALLED_TITLE, "")]))
        lines, cut = _fill(_by_worth(rest), room, zone)
        if lines:
            parts.append(Part("recalled", RECALLED_TITLE, _by_day(lines)))
        left = set(map(id, cut))
        return parts, [hit for hit in hits if id(hit) not in left], [hit for hit in hits if id(hit) in left]

    parts, used, cut = arranged(hits)
    if hits and all(part.name != "recalled" for part in parts):  # the summary is whole, and may tell them
        parts = arranged([])[0]
        there = _told_by_summary(parts, hits, zone)
        used = [hit for place, hit in enumerate(hits) if place in there]
        cut = [hit for place, hit in enumerate(hits) if place not in there]
    text = render(parts)
    if len(text) > characters:  # a budget smaller than the headings
        parts, used, cut, text = [], [], list(hits), ""
    if hits and not used:
        degraded.append(f"no recalled text: {budget} tokens hold none of it")
    if summary and not any(part.name == "summary" for part in parts):
        degraded.append(f"no summary: its share of {budget} tokens holds none of it")
    taken = set(map(id, hits))
    left_out = [*cut, *(hit for hit in recalled.hits if id(hit) not in taken)]
    return Context(text, parts, used, left_out, degraded, run, recalled.ms, why_nothing, zone, why, recalled.speakers)


def _told_by_summary(parts: Sequence[Part], hits: Sequence[Hit], zone: ZoneInfo) -> set[int]:
    """Places of the hits whose words stand in the summary already."""
    return {place for part in parts if part.name == "summary" for place in told_in(part.text, hits, zone)}


def _by_worth(hits: Sequence[Hit]) -> list[Hit]:
    """In the order in which lines are taken, by rank times length: the lower it ranks the less it is worth, and the longer the more it costs."""
    order = sorted(range(len(hits)), key=lambda rank: (rank + 1) * (LINE_CHARACTERS + len(hits[rank].chunk.text)))
    return [hits[rank] for rank in order]


@cache
def _frames() -> tuple[int, dict[str, int]]:
    """Characters of the text around all parts, and of those around each part."""
    parts = {name: Part(name, title, "") for name, title in TITLES.items()}
    twice = {name: len(render([part, part])) for name, part in parts.items()}
    once = {name: len(render([part])) for name, part in parts.items()}
    return max(2 * once[name] - twice[name] for name in parts), {name: twice[name] - once[name] for name in parts}


def _stable(facts: str, summary: str, characters: int, *, talking: bool, recalling: bool) -> list[Part]:
    """Facts and summary, each cut by what does not change with the message: what comes after them is taken to want all there is.

    Where nothing is recalled, the summary has that share too; the facts stay as they are.
    """
    head, frames = _frames()
    room = max(0, characters - head)
    texts = {"facts": harmless(facts), "summary": harmless(summary)}
    wishes = {name: len(text) + frames[name] if text else 0 for name, text in texts.items()}
    share = SHARES["summary"] * min(1.0, characters / (CHARACTERS_PER_TOKEN * WHOLE_SHARE_TOKENS))
    wishes |= {"recent": room if talking else 0, "recalled": room}
    given = shared_out(room, wishes, {**SHARES, "summary": share})
    more = 0 if recalling else given["recalled"]
    cut = {
        "facts": _cut_lines(texts["facts"], given["facts"] - frames["facts"]),
        "summary": cut_summary(texts["summary"], given["summary"] + more - frames["summary"]),
    }
    return [Part(name, TITLES[name], text) for name, text in cut.items() if text]


def facts_room(budget: int) -> int:
    """Characters that facts have of a budget of tokens when every other part takes its own share."""
    head, frames = _frames()
    return int((budget * CHARACTERS_PER_TOKEN - head) * SHARES["facts"]) - frames["facts"]


def _recent(recent: Sequence[Said], earlier: str, room: int, hits: Sequence[Hit], zone: ZoneInfo) -> list[Part]:
    """The conversation so far: its share of what is left, and what the recalled lines cannot use; at most half of it for what came earlier."""
    _, frames = _frames()
    lines, earlier = said_lines(recent, zone), harmless(earlier)
    recalled = [_line(hit, zone) for hit in hits]
    wishes = {
        "recent": frames["recent"] + len(earlier) + 1 + sum(len(line) + 1 for line in lines),
        "recalled": frames["recalled"] + sum(line.cost + line.heading for line in recalled) if recalled else 0,
    }
    given = shared_out(room, wishes, SHARES)["recent"] - frames["recent"]
    summed = _cut_lines(earlier, given // 2 if lines else given)
    said = _newest(lines, given - len(summed) - 1)
    text = "\n".join(filter(None, (summed, said)))
    return [Part("recent", TITLES["recent"], text)] if text else []


def _newest(lines: Sequence[str], characters: int) -> str:
    """The newest of these lines that fit, in the order of time."""
    kept: list[str] = []
    for line in reversed(lines):
        characters -= len(line) + 1
        if characters < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _cut_lines(text: str, characters: int) -> str:
    """Whole lines from the start, as many as fit; no heading without a line under it, and nothing where no line fits."""
    if len(text) <= characters:
        return text
    lines = text[: max(0, characters)].rpartition("\n")[0].splitlines()
    while lines and not lines[-1].startswith("- "):
        lines.pop()
    return "\n".join(lines)


@dataclass(frozen=True)
class Line:
    """A hit as it is injected, and the day that it stands under."""

    hit: Hit
    day: str
    text: str

    @property
    def cost(self) -> int:
        """Characters with the line break."""
        return len(self.text) + 1

    @property
    def heading(self) -> int:
        """Characters of the day's heading, likewise."""
        return len(self.day) + 1


def _line(hit: Hit, zone: ZoneInfo) -> Line:
    """`- Name: text`, with dots where the turn goes on before or after this passage of it, and the question of a short answer."""
    chunk = hit.chunk
    text = one_line(chunk.text)
    asked = ""
    if hit.question and len(text) <= SHORT_ANSWER_CHARACTERS:
        asked = answering(shorten(one_line(hit.question), QUESTION_CHARACTERS))
    asked = asked or replying(chunk.origin)
    before, after = "… " if chunk.passage > 1 else "", " …" if chunk.passage < chunk.passages else ""
    return Line(
        hit,
        day_text(chunk.started_at, zone),
        harmless(f"- {hit.who}{asked}: {before}{text}{after}"),
    )


def _fill(hits: Sequence[Hit], room: int, zone: ZoneInfo) -> tuple[list[Line], list[Hit]]:
    """(lines that fit, hits that do not), taken in rank order; a long one that does not fit makes way for a shorter one."""
    used: list[Line] = []
    cut: list[Hit] = []
    days: set[str] = set()
    for hit in hits:
        # Its text alone is too long: most hits, once the room is nearly full, and no line is made of them.
        line = _line(hit, zone) if len(hit.chunk.text) < room else None
        cost = line.cost + (0 if line.day in days else line.heading) if line else room + 1
        if line is None or cost > room:
            cut.append(hit)
            continue
        used.append(line)
        days.add(line.day)
        room -= cost
    return used, cut


def _by_day(lines: Sequence[Line]) -> str:
    """In the order of time, each day under its date: with an earlier ranking, at 2,000 tokens, a date on every line cost 1.1 points, the hour 0.8."""
    told: list[str] = []
    day = ""
    for line in sorted(lines, key=lambda line: (line.hit.chunk.started_at, line.hit.chunk.passage)):
        told += [line.text] if line.day == day else [line.day, line.text]
        day = line.day
    return "\n".join(told)
