"""`/memory` as a message: answered by the dispatcher itself, before Claude, and not stored as said."""

from __future__ import annotations

import re
from dataclasses import dataclass

USAGE = "\n".join(
    [
        "/memory shows facts, goals and preferences",
        "/memory why shows what I was told for my last answer",
        "/memory add TEXT keeps a fact",
        "/memory forget N forgets the one with that number, and the message it came from",
    ]
)
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
