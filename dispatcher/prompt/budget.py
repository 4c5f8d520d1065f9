"""What the model is given for one message within a budget of tokens: facts, summary, recent turns, recalled lines.

Each part has a share of the budget, and the others may use what it leaves. Stable parts come first and stay identical to the byte all day: how
much of the facts and of the summary is included depends only on the budget, on their own length and on whether anything is recalled. Recalled
lines get the rest, best first, and are put under each day, the newest first (recalled_part.py). The budget counts the whole text.

The numbers in the comments are shares of LoCoMo's questions whose evidence is completely in the injected text (five conversations,
786 questions, through the real night), at 1,000 and at 2,000 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dispatcher.memory.session_history import history_lines
from dispatcher.prompt.context import Context
from dispatcher.prompt.prompt_input import PromptInput
from dispatcher.prompt.recalled_part import by_worth, fill, line_of, newest_first
from dispatcher.prompt.render import PromptPart, render
from dispatcher.prompt.summary_part import cut_summary, places_in
from shared.search.types import Hit
from shared.text.format import CHARACTERS_PER_TOKEN, fitting
from shared.text.marks import harmless

#: The parts in their order, and their shares of the budget if each uses all it can get. The summary's is 300 of 1,500 tokens with its heading: it
#: says what the chat is about even where no line is recalled. It takes the place of evidence (docs/measurements.md).
SHARES: Mapping[str, float] = {"facts": 0.2, "summary": 0.21, "recent": 0.19, "relevant": 0.08, "recalled": 0.32}
#: Tokens from which on the summary has its whole share; below that its share shrinks in proportion to the budget: evidence comes first. Where lines
#: are cut for it, it shrinks faster, to nothing at NO_SHARE_TOKENS: of 1,000 tokens it took the evidence of 3 % of REALTALK's questions.
WHOLE_SHARE_TOKENS, NO_SHARE_TOKENS = 1500, 1000
TITLES: Mapping[str, str] = {
    "facts": "Facts and goals",
    "summary": "Summary of earlier conversations",
    "recent": "This conversation so far",
    "relevant": "Memories that may be relevant to the present message",
    "recalled": "Earlier turns that may be relevant to the present message, newest first",
}
RECALLED_TITLE = TITLES["recalled"]
#: The budget determines how many hits are requested: one per TOKENS_PER_HIT tokens, but at least FEWEST_HITS. That is over twice what fits (of short
#: turns 19 into 1,000 tokens, 37 into 2,000), since those that do not fit are skipped. A fixed 150: .2 more at 2,000 tokens, 50 % more time at 1,500.
TOKENS_PER_HIT, FEWEST_HITS = 16, 30


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
    if layout.cut and given.budget < WHOLE_SHARE_TOKENS:
        layout = _lay_out(given, hits, crowded=True)
    if hits and all(part.name != "recalled" for part in layout.parts):
        layout = _with_whole_summary(given, hits)
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
        release_run=given.run,
        ms=given.recalled.ms,
        no_recall_reason=given.no_recall_reason,
        zone=given.zone,
        decision_reason=given.decision_reason,
        speakers=given.speakers,
        no_recall_plain=given.no_recall_plain,
        by_time=given.by_time,
        summary_at=given.summary_at,
    )


class _Layout(NamedTuple):
    """The parts, the hits whose text is in them, and the hits that did not fit; hits in the order of rank."""

    parts: list[PromptPart]
    used: list[Hit]
    cut: list[Hit]


def _lay_out(given: PromptInput, hits: Sequence[Hit], *, crowded: bool = False) -> _Layout:
    """`crowded`: not all hits fit beside the summary."""
    characters, zone = given.budget * CHARACTERS_PER_TOKEN, given.zone
    parts = _stable(given, recalling=bool(hits), crowded=crowded)
    in_summary = _in_summary(parts, hits, zone)
    rest = [hit for place, hit in enumerate(hits) if place not in in_summary]
    if given.recent or given.earlier:
        parts += _recent(given, characters - (len(render(parts)) or _frames()[0]), rest)
    if given.relevant and (text := _cut_lines(given.relevant, int(characters * SHARES["relevant"]))):
        parts.append(PromptPart("relevant", TITLES["relevant"], text))
    room = characters - len(render([*parts, PromptPart("recalled", RECALLED_TITLE, "")]))
    known = [hits[place] for place in sorted(in_summary)]
    lines, cut = fill(by_worth(rest), room, zone, given.message, known)
    if lines:
        parts.append(PromptPart("recalled", RECALLED_TITLE, newest_first(lines, zone)))
    left = set(map(id, cut))
    return _Layout(parts, [hit for hit in hits if id(hit) not in left], [hit for hit in hits if id(hit) in left])


def _with_whole_summary(given: PromptInput, hits: Sequence[Hit]) -> _Layout:
    """The layout if no line is recalled: then the summary is complete, and may contain the text of some hits."""
    parts = _lay_out(given, []).parts
    in_summary = _in_summary(parts, hits, given.zone)
    used = [hit for place, hit in enumerate(hits) if place in in_summary]
    return _Layout(parts, used, [hit for place, hit in enumerate(hits) if place not in in_summary])


def _without_room(given: PromptInput, layout: _Layout, hits: Sequence[Hit]) -> list[str]:
    """The parts for which the budget has no room at all."""
    reasons = []
    if hits and not layout.used:
        reasons.append(f"no recalled text: {given.budget} tokens hold none of it")
    if given.summary and not any(part.name == "summary" for part in layout.parts):
        reasons.append(f"no summary: its share of {given.budget} tokens holds none of it")
    return reasons


def _in_summary(parts: Sequence[PromptPart], hits: Sequence[Hit], zone: ZoneInfo) -> set[int]:
    """Indexes of the hits whose text is already in the summary."""
    return {place for part in parts if part.name == "summary" for place in places_in(part.text, hits, zone)}


@cache
def _frames() -> tuple[int, dict[str, int]]:
    """Characters of the text around all parts, and of those around each part."""
    parts = {name: PromptPart(name, title, "") for name, title in TITLES.items()}
    twice = {name: len(render([part, part])) for name, part in parts.items()}
    once = {name: len(render([part])) for name, part in parts.items()}
    return max(2 * once[name] - twice[name] for name in parts), {name: twice[name] - once[name] for name in parts}


def _summary_share(budget: int, *, crowded: bool) -> float:
    """The summary's share of so many tokens; `crowded`: recalled lines are cut for it."""
    none = NO_SHARE_TOKENS if crowded else 0
    return SHARES["summary"] * min(1.0, max(0, budget - none) / (WHOLE_SHARE_TOKENS - none))


def _stable(given: PromptInput, *, recalling: bool, crowded: bool) -> list[PromptPart]:
    """Facts and summary, each cut independently of the message: the parts after them are assumed to use all they can get.

    If nothing is recalled, the summary has that share as well; the facts do not change.
    """
    head, frames = _frames()
    characters = given.budget * CHARACTERS_PER_TOKEN
    room = max(0, characters - head)
    talking = given.recent is not None or bool(given.earlier)
    texts = {"facts": harmless(given.facts), "summary": harmless(given.summary)}
    wishes = {name: len(text) + frames[name] if text else 0 for name, text in texts.items()}
    share = _summary_share(given.budget, crowded=crowded)
    wishes |= {"recent": room if talking else 0, "recalled": room}
    shared = shared_out(room, wishes, {**SHARES, "summary": share})
    more = 0 if recalling else shared["recalled"]
    cut = {
        "facts": _cut_lines(texts["facts"], shared["facts"] - frames["facts"]),
        "summary": cut_summary(texts["summary"], shared["summary"] + more - frames["summary"]),
    }
    return [PromptPart(name, TITLES[name], text) for name, text in cut.items() if text]


def facts_room(budget: int) -> int:
    """Characters for facts within a budget of tokens if every other part takes its share."""
    head, frames = _frames()
    return int((budget * CHARACTERS_PER_TOKEN - head) * SHARES["facts"]) - frames["facts"]


def _recent(given: PromptInput, room: int, hits: Sequence[Hit]) -> list[PromptPart]:
    """The conversation so far: its share of the rest, and what the recalled lines cannot use; at most half of it for earlier sessions."""
    _, frames = _frames()
    lines, earlier = history_lines(given.recent or (), given.zone), harmless(given.earlier)
    recalled = [line_of(hit, given.zone, given.message) for hit in hits]
    wishes = {
        "recent": frames["recent"] + len(earlier) + 1 + sum(len(line) + 1 for line in lines),
        "recalled": frames["recalled"] + sum(line.cost + line.heading for line in recalled) if recalled else 0,
    }
    share = shared_out(room, wishes, SHARES)["recent"] - frames["recent"]
    sums = _cut_lines(earlier, share // 2 if lines else share)
    newest = "\n".join(fitting(lines, share - len(sums) - 1, newest=True))
    text = "\n".join(filter(None, (sums, newest)))
    return [PromptPart("recent", TITLES["recent"], text)] if text else []


def _cut_lines(text: str, characters: int) -> str:
    """Whole lines from the start, as many as fit; no heading without a line under it, and "" if no line fits."""
    if len(text) <= characters:
        return text
    lines = text[: max(0, characters)].rpartition("\n")[0].splitlines()
    while lines and not lines[-1].startswith("- "):
        lines.pop()
    return "\n".join(lines)
