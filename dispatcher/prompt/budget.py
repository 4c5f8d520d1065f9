"""What the model is given for one message within a budget of tokens: profile, summary, recent turns, facts, recalled lines.

Each part has a share of the budget, and the others may use what it leaves; what is recalled has been chosen by what it is worth, so most prompts stay
far below the budget. Stable parts come first and stay identical to the byte all day: how much of them is included depends only on the budget and on
their own length. Recalled lines get the rest, and are put under each day, the newest first (recalled_part.py). The budget counts the whole text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from dispatcher.memory.session_history import history_lines
from dispatcher.prompt.context import ITEM, Choice, Context
from dispatcher.prompt.recalled_part import fill, line_of, newest_first
from dispatcher.prompt.render import HEAD, PromptPart, block, render
from shared.ranking.extractive_summary import AS_SAID
from shared.search.types import Hit
from shared.text.format import CHARACTERS_PER_TOKEN, date_text, fitting, one_line
from shared.text.marks import harmless
from shared.turns.origin_words import replying

if TYPE_CHECKING:
    from shared.search.types import Recalled
    from shared.turns.records import Turn

#: The parts in their order, and their shares of the budget if each uses all it can get.
SHARES: Mapping[str, float] = {"profile": 0.12, "summary": 0.12, "recent": 0.19, "facts": 0.16, "recalled": 0.41}
TITLES: Mapping[str, str] = {
    "profile": "What holds now, by the day when it was noted",
    "summary": "Summary of earlier conversations",
    "recent": "This conversation so far",
    "facts": "Notes that may bear on the present message, newest first",
    "recalled": "Earlier turns that may bear on it, newest first",
}
RECALLED_TITLE = TITLES["recalled"]
#: Characters above all parts, and around each part.
HEADING = len(HEAD) - 1
FRAMES: Mapping[str, int] = {name: len(block(PromptPart(name, title, ""))) for name, title in TITLES.items()}
#: The budget determines how many hits are requested: one per TOKENS_PER_HIT tokens, but at least FEWEST_HITS. That is over twice what fits (of short
#: turns 19 into 1,000 tokens, 37 into 2,000), since turns that do not fit are skipped. A fixed 150: .2 more at 2,000 tokens, 50 % more time at 1,500.
TOKENS_PER_HIT, FEWEST_HITS = 16, 30


@dataclass(frozen=True)
class PromptInput(Choice):
    """What `compose` fits into `budget` tokens.

    `hits` are those worth injecting, best first (None: all that were recalled); `searched`: turns were looked up. `message`: what long passages are
    cut to the matching sentences of ("": they stay whole). `recent` is None if a session has the conversation; `profile` is what holds for who asks,
    `earlier` sums up earlier sessions, `facts` are memories that bear on this message.
    """

    recalled: Recalled
    summary: str = ""
    _: KW_ONLY
    budget: int
    zone: ZoneInfo
    hits: Sequence[Hit] | None = None
    searched: bool = True
    message: str = ""
    recent: Sequence[Turn] | None = None
    profile: str = ""
    earlier: str = ""
    facts: str = ""

    @property
    def injected(self) -> list[Hit]:
        """The hits to inject, best first."""
        if self.no_recall_reason:
            return []
        return list(self.recalled.hits if self.hits is None else self.hits)


def hits_for(budget: int) -> int:
    """How many hits to request for a budget of tokens."""
    return max(FEWEST_HITS, budget // TOKENS_PER_HIT)


def shared_out(budget: int, wishes: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """What each part gets of a budget (in any unit), in the order of `wishes`: its share, or its wish if that is less.

    The rest goes to the parts that wish for more, the greatest share first. The sum is at most the budget, no part gets more than its wish,
    and nothing is left while a wish is unmet. So next to a greater part that takes all it can get, a part has exactly its share.
    """
    budget = max(0, budget)
    given = {part: min(wish, int(budget * shares[part])) for part, wish in wishes.items()}
    left = budget - sum(given.values())
    for part in sorted(wishes, key=lambda part: -shares[part]):
        more = min(left, wishes[part] - given[part])
        given[part] += more
        left -= more
    return given


def compose(given: PromptInput) -> Context:
    """Fit all parts into the budget; stable parts first."""
    characters, hits = given.budget * CHARACTERS_PER_TOKEN, given.injected
    layout = _lay_out(given, hits)
    text = render(layout.parts)
    if len(text) > characters:  # a budget smaller than the headings
        layout, text = _Layout([], [], hits), ""
    taken = set(map(id, hits))
    return Context(
        text,
        layout.parts,
        layout.used,
        cut=[*layout.cut, *(hit for hit in given.recalled.hits if id(hit) not in taken)],
        degraded=[*given.recalled.degraded, *_without_room(given, layout, hits)],
        ms=given.recalled.ms,
        zone=given.zone,
        speakers=given.recalled.speakers,
        **{one.name: getattr(given, one.name) for one in fields(Choice)},
    )


class _Layout(NamedTuple):
    """The parts, the hits whose text is in them, and the hits that did not fit; hits in the order of rank."""

    parts: list[PromptPart]
    used: list[Hit]
    cut: list[Hit]


def _lay_out(given: PromptInput, hits: Sequence[Hit]) -> _Layout:
    characters, zone = given.budget * CHARACTERS_PER_TOKEN, given.zone
    parts = _stable(given)
    summary = next((part.text for part in parts if part.name == "summary"), "")
    rest = not_told_in(summary, hits, zone)
    facts = _facts(given, characters - (len(render(parts)) or HEADING))
    if given.recent or given.earlier:
        parts += _recent(given, characters - (len(render([*parts, *facts])) or HEADING), rest)
    parts += facts
    room = characters - len(render([*parts, PromptPart("recalled", RECALLED_TITLE, "")]))
    lines, cut = fill(rest, room, zone, given.message)
    if lines:
        parts.append(PromptPart("recalled", RECALLED_TITLE, newest_first(lines, zone)))
    left = set(map(id, cut))
    return _Layout(parts, [hit for hit in hits if id(hit) not in left], [hit for hit in hits if id(hit) in left])


def _without_room(given: PromptInput, layout: _Layout, hits: Sequence[Hit]) -> list[str]:
    """The parts for which the budget has no room at all."""
    reasons = []
    if hits and not layout.used:
        reasons.append(f"no recalled text: {given.budget} tokens hold none of it")
    if given.summary and not any(part.name == "summary" for part in layout.parts):
        reasons.append(f"no summary: its share of {given.budget} tokens holds none of it")
    return reasons


def _stable(given: PromptInput) -> list[PromptPart]:
    """Profile and summary, each cut independently of the message: the parts after them are assumed to use all they can get."""
    room = max(0, given.budget * CHARACTERS_PER_TOKEN - HEADING)
    talking = given.recent is not None or bool(given.earlier)
    texts = {"profile": harmless(given.profile), "summary": harmless(given.summary)}
    wishes = {name: len(text) + FRAMES[name] if text else 0 for name, text in texts.items()}
    wishes |= {"recent": room if talking else 0, "recalled": room if given.searched else 0}
    shared = shared_out(room, wishes, SHARES)
    cut = {
        "profile": _cut_lines(texts["profile"], shared["profile"] - FRAMES["profile"]),
        "summary": cut_summary(texts["summary"], shared["summary"] - FRAMES["summary"]),
    }
    return [PromptPart(name, TITLES[name], text) for name, text in cut.items() if text]


def _facts(given: PromptInput, room: int) -> list[PromptPart]:
    """Notes that bear on the message: their share of the budget at most, within the room that is left."""
    room = min(int(given.budget * CHARACTERS_PER_TOKEN * SHARES["facts"]), room - FRAMES["facts"])
    text = _cut_lines(harmless(given.facts), room)
    return [PromptPart("facts", TITLES["facts"], text)] if text else []


def _recent(given: PromptInput, room: int, hits: Sequence[Hit]) -> list[PromptPart]:
    """The conversation so far: its share of the rest, and what the recalled lines cannot use; at most half of it for earlier sessions."""
    lines, earlier = history_lines(given.recent or (), given.zone), harmless(given.earlier)
    recalled = [line_of(hit, given.zone, given.message) for hit in hits]
    wishes = {
        "recent": FRAMES["recent"] + len(earlier) + 1 + sum(len(line) + 1 for line in lines),
        "recalled": FRAMES["recalled"] + sum(line.cost + line.heading for line in recalled) if recalled else 0,
    }
    share = shared_out(room, wishes, SHARES)["recent"] - FRAMES["recent"]
    sums = _cut_lines(earlier, share // 2 if lines else share)
    newest = "\n".join(fitting(lines, share - len(sums) - 1, newest=True))
    text = "\n".join(filter(None, (sums, newest)))
    return [PromptPart("recent", TITLES["recent"], text)] if text else []


def _cut_lines(text: str, characters: int) -> str:
    """Whole lines from the start, as many as fit; no heading without a line under it, and "" if no line fits."""
    if len(text) <= characters:
        return text
    lines = text[: max(0, characters)].rpartition("\n")[0].splitlines()
    while lines and not ITEM.match(lines[-1]):
        lines.pop()
    return "\n".join(lines)


# ── The chat's summary: what is included if not all fits, and which hits it already contains.

#: Characters of a line's dash and date.
DATED = len("- 2026-11-23")


def is_verbatim(summary: str) -> bool:
    """Whether all of its lines are word for word what somebody said, so that each is known by its words."""
    return summary.partition("\n")[0].endswith(AS_SAID)


def without_sentences(summary: str, texts: Sequence[str]) -> str:
    """The summary without the lines that these texts hold; "" if nothing but its head is left."""
    gone = [one_line(text) for text in texts]
    head, *lines = summary.split("\n")
    left = [line for line in lines if not line or not any(_sentence_of(line) in text for text in gone)]
    return "\n".join([head, *left]) if any(left) else ""


def _sentence_of(line: str) -> str:
    """The sentence of a line, as far as it was not cut."""
    return line.partition(": ")[2].removesuffix("…").rstrip()


def cut_summary(text: str, characters: int) -> str:
    """The text, or its head and as many whole lines from the top, the newest first, as fit; "" if none fits."""
    if len(text) <= max(0, characters):
        return text
    head, *lines = text.split("\n")
    room, taken = characters - len(head), list[str]()
    for line in lines:
        if len(line) < room:
            taken.append(line)
            room -= len(line) + 1
    while taken and not taken[-1].startswith("- "):  # no heading without a line
        taken.pop()
    return "\n".join([head, *taken]) if taken else ""


def not_told_in(summary: str, hits: Sequence[Hit], zone: ZoneInfo) -> list[Hit]:
    """The hits whose whole text is not in the summary: only they are recalled."""
    lines = set(summary.split("\n"))
    heads = {line[:DATED] for line in lines}
    return [hit for hit in hits if hit.chunk.passages > 1 or not _tells(hit, heads, lines, zone)]


def _tells(hit: Hit, heads: set[str], lines: set[str], zone: ZoneInfo) -> bool:
    """Whether its line, as the night writes it, is among the lines; most hits are of another day than all of them. What a turn replies to is not."""
    chunk = hit.chunk
    if replying(chunk.origin):
        return False
    head = f"- {date_text(chunk.started_at, zone)}"
    return head[:DATED] in heads and harmless(f"{head} {chunk.who()}: {one_line(chunk.text)}") in lines
