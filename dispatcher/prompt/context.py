"""The memory text of one message, with its sources and what is missing; and a hit as JSON."""

from __future__ import annotations

import re
from calendar import month_name
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.prompt.render import PromptPart, render, render_message
from shared.search.types import Hit
from shared.text.format import tokens
from shared.turns.speakers import Speaker

#: The signals among a hit's scores that are not part of the sum.
RAW = ("bm25", "cosine")
RELEASE, OTHER = "release", "other"
#: A setting, not a failure.
SWITCHED_OFF = "MEMORY_TOKENS=0"
#: How a reason for a degraded context begins → its kind ("": it has none of its own), and what it means for a person.
DEGRADED = {
    "no vector search": (
        "vectors",
        "Only words were compared, not meanings, so what was said in other words may be missing",
    ),
    "no keyword search": ("keywords", "Only meanings were compared, not words, so names and numbers may be missing"),
    "no recalled text": ("text", "Earlier messages are missing"),
    "no summary": ("summary", "The chat's summary is missing"),
    "no notes": ("", "What a model noted about earlier messages was left out"),
    "no memory of the day": ("day", "Facts, and what was said since last night, are missing"),
    "no memory at all": ("memory", "Nothing is recalled"),
    "no conversation so far": ("", "What was said in this conversation so far is missing"),
    "memory did not answer in time": ("memory", "Claude answered without memory, which took too long"),
    "memory failed": ("memory", "Claude answered without memory, which failed"),
    SWITCHED_OFF: ("", "Memory is switched off by MEMORY_TOKENS=0"),
}
#: Where the reason does not say what to do.
_DOCTOR = "hmem doctor says whether there is anything to do."
#: How many of the best hits that were left out the record of an answer has.
MISSED = 5


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which release was read, and why hits are injected or not."""

    release_run: int | None = None
    no_recall_reason: str | None = None  # why none is injected
    no_recall_plain: str | None = None  # the same for the chat, without figures and internal names
    decision_reason: str | None = None  # the evidence by which hits are injected, or not
    by_time: bool = False  # hits are injected because of their time
    summary_at: str | None = None  # when the chat's summary was written, ISO 8601 in the zone


@dataclass(frozen=True)
class Context(Choice):
    """The text to inject, its sources, and what is missing.

    `cut` has the hits that did not fit into the budget, or all of them (of an answer, MISSED) if `no_recall_reason` says that none is relevant to the
    message; `degraded` has the reasons why something could not be searched.
    """

    text: str
    parts: list[PromptPart] = field(default_factory=list)
    used: list[Hit] = field(default_factory=list)
    cut: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ms: float = 0.0
    zone: ZoneInfo | None = None
    speakers: tuple[Speaker, ...] = ()  # everyone in the chat

    def placed(self, message: str, placement: str, ending: str = "") -> tuple[str, str]:
        """(text for the system prompt, message with the text ahead of it).

        RECALL_PLACEMENT decides where the text that changes with each message goes: recalled lines, and `ending` after all memory.
        """
        if placement == "system":
            return "\n\n".join(filter(None, (self.text, ending))), message
        recalled = next((part for part in self.parts if part.name == "recalled"), None)
        rest = [part for part in self.parts if part.name != "recalled"]
        return render(rest), render_message(recalled, message, ending)

    def lines_json(self) -> list[dict[str, Any]]:
        """The text in its lines: part ("frame" for headings and instructions), text, and its day (ISO 8601) if it stands there or above it."""
        inside = {f'<record id="{part.fence}">': part.name for part in self.parts}
        found, part, above = list[dict[str, Any]](), "frame", None
        for text in self.text.split("\n"):
            day = _day_of(text) if part in ("profile", "facts", "recalled") else None
            heading = part == "recalled" and bool(day) and not text.startswith("- ")
            if text in inside or text.startswith("</record "):
                part, above, heading = inside.get(text, "frame"), None, True
            elif heading:
                above = day
            if part != "frame" and text.startswith(("|", "  ")):  # of the item above: code, and what was said after it
                found[-1]["text"] += f"\n{text}"
                continue
            found.append({"part": "frame" if heading else part, "text": text, "date": day or above})
        return found

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the typed memories in it, by which a tag may name them."""
        lines = [one for part in self.parts if part.name in ("profile", "facts") for one in part.body.splitlines()]
        return frozenset(int(found[1]) for one in lines if (found := _NUMBERED.match(one)))

    @property
    def tokens(self) -> int:
        return tokens(self.text)

    def to_json(self) -> dict[str, Any]:
        return self.outline() | {
            "hits": [hit_json(hit, self.zone) for hit in self.used],
            "cut": [hit_json(hit, self.zone) for hit in self.cut],
            "text": self.text,
            "lines": self.lines_json(),
        }

    def outline(self) -> dict[str, Any]:
        """The JSON without any text."""
        return {
            "release": self.release_run,
            "tokens": self.tokens,
            "parts": [{"name": part.name, "tokens": tokens(part.body)} for part in self.parts],
            "nothing_why": self.no_recall_reason,
            "why": self.decision_reason,
            "degraded": self.degraded,
            "ms": round(self.ms, 2),
        }


#: How a note begins (`noted_line` of dispatcher/memory/typed/text.py writes it); and any item of a list.
_NUMBERED = re.compile(r"(\d{1,9})\. noted ")
ITEM = re.compile(rf"- |{_NUMBERED.pattern}")
_DAY = re.compile(rf"(?:- |\d{{1,9}}\. noted )?(\d{{1,2}}) ({'|'.join(month_name[1:])}) (\d{{4}})(?=[:,]|\Z)")


def _day_of(line: str) -> str | None:
    """The day with which a line begins, as `day_text` writes it."""
    found = _DAY.match(line)
    return f"{int(found[3]):04}-{list(month_name).index(found[2]):02}-{int(found[1]):02}" if found else None


def hit_json(hit: Hit, zone: ZoneInfo | None = None) -> dict[str, Any]:
    """A hit as JSON.

    `date` is ISO 8601 in the zone (UTC for none). `score`, and `words` and `meaning` in `scores`, are what people see: 0 to 1, comparable between
    queries. `bm25` and `cosine` are the raw signals, `rank` is what the hits are ordered by and `parts` add up to it; `also` are turns that say
    the same.
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
        "scores": {name: rounded(value) for name, value in scores.items()},
        "rank": round(hit.rank, 4),
        "parts": {name: rounded(value) for name, value in hit.scores.items() if name not in RAW},
        "also": list(hit.also),
        "question": hit.question,
        "text": chunk.text,
        **chunk.origin.to_json(),
    }


def hit_date(hit: Hit, zone: ZoneInfo | None = None) -> str:
    """The time of the hit: ISO 8601 in the zone (UTC for none)."""
    return datetime.fromtimestamp(hit.chunk.started_at, zone or ZoneInfo("UTC")).isoformat(timespec="seconds")


def rounded(value: float | None) -> float | None:
    """A score as it is stored and shown to programs."""
    return None if value is None else round(value, 4)


def degraded_kind(reason: str, release_run: int | None) -> str | None:
    """The kind of a reason in `Context.degraded`; None for something that was switched off on purpose."""
    if reason.startswith(SWITCHED_OFF):
        return None
    kind = next((kind for beginning, (kind, _) in DEGRADED.items() if reason.startswith(beginning)), "")
    return kind or (RELEASE if release_run is None else OTHER)


def plain_reason(reason: str) -> str:
    """A reason of `degraded` for a person: what it means, why, and what to do."""
    beginning, _, why = reason.partition(": ")
    kind, meaning = DEGRADED.get(beginning, ("", ""))
    if not meaning:
        return reason
    sentence = f"{meaning}{': ' if why else ''}{why}".rstrip(".")
    return f"{sentence}. {_DOCTOR}" if kind in ("vectors", "keywords") else f"{sentence}."
