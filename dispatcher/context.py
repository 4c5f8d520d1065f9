"""What the model is given for one message: the chat's summary, then recalled lines, inside a budget of tokens and of time.

The summary may take 40 % of the budget and is cut the same way all day, so that it stays identical to the byte; recalled lines get
the rest, best first, and are then put in the order of time. The budget counts the whole injected text, headings included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.prompt import Part, render, render_message
from shared.recall import Hit, OpenRelease, Recalled
from shared.settings import Settings
from shared.text import CHARACTERS_PER_TOKEN, one_line, shorten, time_text, tokens

#: The summary's share of the budget.
SUMMARY_SHARE = 0.4
#: Hits asked for; the budget decides how many go in.
RECALLED_HITS = 30
#: Characters of the question shown with an answer.
QUESTION_CHARACTERS = 160
#: A budget under this holds no useful part.
SMALLEST_PART_CHARACTERS = 80

#: The share of the conversation so far, where no session carries it (SESSION_MODE=replay), and the length of one of its turns.
RECENT_SHARE = 0.4
RECENT_CHARACTERS = 1000

RECENT_TITLE = "This conversation so far"
SUMMARY_TITLE = "Summary of earlier conversations"
RECALLED_TITLE = "Earlier turns that may bear on the present message (date, speaker, words)"


@dataclass(frozen=True)
class Said:
    """An entry of `hcli:session_history`: role `user` or `assistant`, POSIX seconds."""

    role: str
    content: str
    timestamp: float


@dataclass(frozen=True)
class Context:
    """The text to inject with what it is made of, and why it is not more."""

    text: str
    parts: list[Part] = field(default_factory=list)
    used: list[Hit] = field(default_factory=list)
    cut: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    release_run: int | None = None
    ms: float = 0.0

    def placed(self, message: str, placement: str) -> tuple[str, str]:
        """(text for the system prompt, message with what goes ahead of it): RECALL_PLACEMENT decides where recalled lines stand."""
        recalled = [part for part in self.parts if part.name == "recalled"]
        if placement == "system" or not recalled:
            return self.text, message
        return render([part for part in self.parts if part.name != "recalled"]), render_message(recalled[0], message)

    @property
    def tokens(self) -> int:
        return tokens(self.text)

    def to_json(self) -> dict[str, Any]:
        return {
            "release": self.release_run,
            "tokens": self.tokens,
            "parts": [{"name": part.name, "tokens": tokens(part.text)} for part in self.parts],
            "hits": [hit_json(hit) for hit in self.used],
            "cut": [hit_json(hit) for hit in self.cut],
            "degraded": self.degraded,
            "ms": round(self.ms, 2),
            "text": self.text,
        }


def hit_json(hit: Hit) -> dict[str, Any]:
    """A hit as scripts read it."""
    chunk = hit.chunk
    return {
        "chunk_id": chunk.chunk_id,
        "turn_ids": list(chunk.turn_ids),
        "speaker": chunk.speaker,
        "timestamp": chunk.started_at,
        "score": round(hit.score, 4),
        "scores": {"lexical": _rounded(hit.lexical), "vector": _rounded(hit.vector)},
        "question": hit.question,
        "text": chunk.text,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def assemble(
    release: OpenRelease | None, chat_id: str, message: str, settings: Settings, recent: Sequence[Said] = ()
) -> Context:
    """The context of one message from the open release (if there is one) and what was said just now, within MEMORY_TOKENS."""
    if settings.memory_tokens <= 0:
        return Context("", degraded=["MEMORY_TOKENS=0"])
    if release is None:
        nothing = Recalled(degraded=["there is no release yet"])
        return compose(nothing, "", budget=settings.memory_tokens, zone=settings.timezone, run=None, recent=recent)
    recalled = release.recall(chat_id, message, RECALLED_HITS, settings.memory_deadline_ms / 1000)
    summary = (release.summary(chat_id) if settings.memory_summary else None) or ""
    return compose(
        recalled, summary.strip(), budget=settings.memory_tokens, zone=settings.timezone, run=release.run, recent=recent
    )


def compose(
    recalled: Recalled, summary: str, *, budget: int, zone: ZoneInfo, run: int | None, recent: Sequence[Said] = ()
) -> Context:
    """Fit summary, recent turns and hits into the budget; stable parts first."""
    characters = budget * CHARACTERS_PER_TOKEN
    parts: list[Part] = []
    if summary_text := _cut_lines(summary, int(characters * SUMMARY_SHARE)):
        parts.append(Part("summary", SUMMARY_TITLE, summary_text))
    if recent_text := _newest(recent, int(characters * RECENT_SHARE), zone):
        parts.append(Part("recent", RECENT_TITLE, recent_text))
    room = characters - len(render([*parts, Part("recalled", RECALLED_TITLE, "")]))
    used, cut = _fill(recalled.hits, room, zone)
    if not used and cut and summary_text:  # too small for both: what bears on the message goes first
        return compose(recalled, "", budget=budget, zone=zone, run=run, recent=recent)
    if used:
        lines = sorted(((hit.chunk.started_at, _line(hit, zone)) for hit in used), key=lambda pair: pair[0])
        parts.append(Part("recalled", RECALLED_TITLE, "\n".join(line for _, line in lines)))
    text = render(parts)
    if len(text) > characters:  # a budget smaller than the headings
        parts, used, cut, text = [], [], recalled.hits, ""
    return Context(text, parts, used, cut, recalled.degraded, run, recalled.ms)


def _newest(recent: Sequence[Said], characters: int, zone: ZoneInfo) -> str:
    """The newest of these turns that fit, in the order of time; a long one is shortened."""
    lines: list[str] = []
    for said in reversed(recent):
        line = f"- {time_text(said.timestamp, zone)} {said.role}: {shorten(one_line(said.content), RECENT_CHARACTERS)}"
        characters -= len(line) + 1
        if characters < 0:
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def _cut_lines(text: str, characters: int) -> str:
    """Whole lines from the start, as many as fit."""
    if len(text) <= characters:
        return text
    head = text[:characters].rpartition("\n")[0].rstrip()
    return head if len(head) >= SMALLEST_PART_CHARACTERS else ""


def _fill(hits: list[Hit], room: int, zone: ZoneInfo) -> tuple[list[Hit], list[Hit]]:
    """(hits that fit, hits that do not), taken in rank order; a long one that does not fit makes way for a shorter one."""
    used: list[Hit] = []
    cut: list[Hit] = []
    for hit in hits:
        cost = len(_line(hit, zone)) + 1
        (used if cost <= room else cut).append(hit)
        room -= cost if cost <= room else 0
    return used, cut


def _line(hit: Hit, zone: ZoneInfo) -> str:
    chunk = hit.chunk
    asked = f' (answering "{shorten(one_line(hit.question), QUESTION_CHARACTERS)}")' if hit.question else ""
    return f"- {time_text(chunk.started_at, zone)} {one_line(chunk.speaker)}{asked}: {one_line(chunk.text)}"
