"""The memory text of one message, with what it is made of and why it is not more; and a hit as scripts read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.prompt.render import PromptPart, render, render_message
from shared.search.types import Hit
from shared.text.format import tokens
from shared.turns.speakers import Speaker

#: The signals among a hit's scores that are no part of the sum.
RAW = ("bm25", "cosine")


@dataclass(frozen=True)
class Context:
    """The text to inject with what it is made of, and why it is not more.

    `cut` holds the hits that the budget left out, or all of them where `no_recall_reason` says that none bears on the message; `degraded` says
    what could not be asked.
    """

    text: str
    parts: list[PromptPart] = field(default_factory=list)
    used: list[Hit] = field(default_factory=list)
    cut: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    release_run: int | None = None
    ms: float = 0.0
    no_recall_reason: str | None = None
    zone: ZoneInfo | None = None
    decision_reason: str | None = None  # by which evidence hits are injected, or not
    speakers: tuple[Speaker, ...] = ()  # everybody of the chat
    no_recall_plain: str | None = (
        None  # `no_recall_reason` for the person in the chat, without figures and names of ours
    )
    by_time: bool = False  # hits are injected because they were said then
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
            "nothing_why": self.no_recall_reason,
            "why": self.decision_reason,
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
