"""`/memory` as a message: answered by the dispatcher itself, before Claude, and not stored as said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shared.records import RecordRefused, loads_object
from shared.text import one_line, shorten

USAGE = "\n".join(
    [
        "/memory shows facts, goals and preferences",
        "/memory why shows what I was told for my last answer",
        "/memory add TEXT keeps a fact",
        "/memory forget N forgets the one with that number, and the message it came from",
    ]
)
#: The longest line that `/memory why` shows of a recalled turn, and the most lines.
WHY_CHARACTERS, WHY_LINES = 160, 20

_COMMAND = re.compile(r"\A/memory(?:@\w+)?(?:\s+(?P<rest>.*))?\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Command:
    """`show`, `why`, `add` with its text, `forget` with its number, or `usage`."""

    name: str
    text: str = ""
    number: int = 0


def parse(message: str) -> Command | None:
    """The command that a message is; None for any other message."""
    found = _COMMAND.match(message.strip())
    if found is None:
        return None
    words = (found["rest"] or "").split(maxsplit=1)
    if not words:
        return Command("show")
    word, rest = words[0].lower(), words[1].strip() if len(words) > 1 else ""
    if word == "why" and not rest:
        return Command("why")
    if word == "add" and rest:
        return Command("add", rest)
    if word == "forget" and re.fullmatch(r"[0-9]{1,9}", rest):
        return Command("forget", number=int(rest))
    return Command("usage")


def why_text(raw: bytes | None) -> str:
    """What was injected for the last answer, for people; `raw` is a context's JSON (dispatcher/context.py), as it stands in Redis."""
    if raw is None:
        return "There is nothing to explain: no answer within the last day, or something was forgotten since, and its explanation with it."
    try:
        return _explained(loads_object(raw))
    except (RecordRefused, KeyError, TypeError, ValueError, AttributeError):
        return "The explanation of my last answer cannot be read: somebody else wrote to it. The next answer has one again."


def _explained(record: dict[str, Any]) -> str:
    sizes = ", ".join(f"{part['name']} {part['tokens']}" for part in record["parts"]) or "nothing"
    headings = record["tokens"] - sum(part["tokens"] for part in record["parts"])
    lines = [
        f"For my last answer I was told {record['tokens']} tokens: {sizes}"
        + (f", headings {headings}." if headings else ".")
    ]
    if record.get("nothing_why"):
        lines.append(f"No earlier turns: {record['nothing_why']}.")
    elif record.get("why"):
        lines.append(f"Earlier turns were wanted: {record['why']}.")
    hits = record["hits"]
    if hits:
        lines.append("Earlier turns, with how well each fitted:")
        lines += [
            f"- {hit['score']:.2f} {hit['date'][:10]} {hit['speaker']}: {shorten(one_line(hit['text']), WHY_CHARACTERS)}"
            for hit in hits[:WHY_LINES]
        ]
        if len(hits) > WHY_LINES:
            lines.append(f"… and {len(hits) - WHY_LINES} more")
    lines += [f"Missing: {reason.rstrip('.')}." for reason in record["degraded"]]
    return "\n".join(lines)
