"""The chat's summary as a part of the prompt: what is included if not all fits, and which hits it already contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.ranking.extractive_summary import AS_SAID
from shared.text.format import date_text, one_line
from shared.text.marks import harmless
from shared.turns.origin_words import replying

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.search.types import Hit


#: Characters of a line's dash and date.
HEAD = len("- 2026-11-23")


def is_verbatim(summary: str) -> bool:
    """Whether all of its lines are word for word what somebody said, so that each is known by its words."""
    return summary.partition("\n")[0].endswith(AS_SAID)


def without_sentences(summary: str, texts: Sequence[str]) -> str:
    """The summary without the lines that these texts hold; "" if nothing but its head is left."""
    gone = [one_line(text) for text in texts]
    head, *lines = summary.split("\n")
    left = [line for line in lines if not line or not any(_said(line) in text for text in gone)]
    return "\n".join([head, *left]) if any(left) else ""


def _said(line: str) -> str:
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


def places_in(summary: str, hits: Sequence[Hit], zone: ZoneInfo) -> set[int]:
    """Indexes of the hits whose whole text is in the summary: they are not recalled again."""
    lines = set(summary.split("\n"))
    heads = {line[:HEAD] for line in lines}
    return {place for place, hit in enumerate(hits) if hit.chunk.passages == 1 and _in(hit, heads, lines, zone)}


def _in(hit: Hit, heads: set[str], lines: set[str], zone: ZoneInfo) -> bool:
    """Whether its line, as the night writes it, is among the lines; most hits are of another day than all of them. What a turn replies to is not."""
    chunk = hit.chunk
    if replying(chunk.origin):
        return False
    head = f"- {date_text(chunk.started_at, zone)}"
    return head[:HEAD] in heads and harmless(f"{head} {chunk.who()}: {one_line(chunk.text)}") in lines
