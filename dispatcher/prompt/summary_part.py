"""The chat's summary as a part of the prompt: what is included if not all fits, and which hits it already contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.text.format import date_text, one_line
from shared.text.marks import harmless

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.search.types import Hit


#: Characters of a line's dash and date.
HEAD = len("- 2026-11-23")


def cut_summary(text: str, characters: int) -> str:
    """The text, or as many whole lines of it as fit; "" if no line fits after the first, which only says what the summary covers.

    The paragraph before the first blank line comes first: it has the topics, and the text of a model. Each further paragraph is a heading over
    lines, the newest first; each contributes its first line, then the same fraction of the rest. A line that does not fit is skipped.
    """
    if len(text) <= max(0, characters):
        return text
    paragraphs = [[line for line in block.split("\n") if line] for block in text.split("\n\n")]
    head, *blocks = [lines for lines in paragraphs if lines] or [[]]
    room = characters
    taken: list[list[str]] = [[] for _ in (head, *blocks)]
    for line in head:
        if len(line) < room:
            taken[0].append(line)
            room -= len(line) + 1
    titles = ["" if block[0].startswith("- ") else block[0] for block in blocks]
    waiting = [list(block[bool(title) :]) for block, title in zip(blocks, titles, strict=True)]
    totals = [len(lines) for lines in waiting]
    while any(waiting):
        number = min(
            (n for n, lines in enumerate(waiting) if lines), key=lambda n: (1 - len(waiting[n]) / totals[n], n)
        )
        title, line, into = titles[number], waiting[number].pop(0), taken[number + 1]
        cost = len(line) + 1 + (0 if into else 1 + (len(title) + 1 if title else 0))
        if cost <= room:
            into += [title, line] if title and not into else [line]
            room -= cost
    filled = [lines for lines in taken if lines]
    if taken[0][1:] or filled[bool(taken[0]) :]:
        return "\n\n".join("\n".join(lines) for lines in filled)
    return ""


def places_in(summary: str, hits: Sequence[Hit], zone: ZoneInfo) -> set[int]:
    """Indexes of the hits whose whole text is in the summary: they are not recalled again."""
    lines = set(summary.split("\n"))
    heads = {line[:HEAD] for line in lines}
    return {place for place, hit in enumerate(hits) if hit.chunk.passages == 1 and _in(hit, heads, lines, zone)}


def _in(hit: Hit, heads: set[str], lines: set[str], zone: ZoneInfo) -> bool:
    """Whether its line, as the night writes it, is among the lines; most hits are of another day than all of them."""
    chunk = hit.chunk
    head = f"- {date_text(chunk.started_at, zone)}"
    return head[:HEAD] in heads and harmless(f"{head} {chunk.who()}: {one_line(chunk.text)}") in lines
