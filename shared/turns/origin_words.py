"""How a line says that its words are a forward, or a reply: in labels, which end ahead of the words, and which no name can close or fake.

A name shows no brackets (shared/turns/speakers.py), so what stands in brackets behind a name is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shared.text.format import one_line, shorten
from shared.turns.message_origin import OF_A_FILE, Forward, Origin, Quote
from shared.turns.speakers import Speaker, label, namesakes, plain_name

if TYPE_CHECKING:
    from shared.turns.records import Turn

#: How much of what is replied to stands in a line, in characters.
REPLIED_CHARACTERS = 80


def said_by(who: str, origin: Origin) -> str:
    """`Ann`, or `Ann (forwarded from Bob)` where the words are not hers; of a passage of a document `contract.pdf (from Ann)`."""
    forward = origin.forward
    if forward is None:
        return who
    source = source_of(forward)
    return f"{source} (from {who})" if forward.kind == OF_A_FILE else f"{who} (forwarded from {source})"


def labels_of(turns: Sequence[Turn], speakers: Iterable[Speaker]) -> list[str]:
    """Who said each of these turns; namesakes among the speakers are told apart."""
    marks = namesakes(speakers)
    return [said_by(label(turn.role, turn.speaker, marks.get(turn.person, "")), turn.origin) for turn in turns]


def source_of(forward: Forward) -> str:
    """Whose words a forward holds."""
    if forward.by_bot:
        return "assistant"
    if forward.kind == OF_A_FILE:  # a file's name ends in what it is, so it passes for nobody's
        name = plain_name(forward.name or "")
        return name if "." in name.strip(".") and " " not in name else f'file "{name}"' if name else "a file"
    name = label("user", forward.name) if forward.name else ""
    if forward.kind == "channel":
        return f"the channel {name}".strip()
    return name or "somebody unnamed"


def author_of(quote: Quote) -> str:
    """Who wrote what is replied to."""
    who = "assistant" if quote.by_bot else label("user", quote.name) if quote.name else "somebody unnamed"
    return f"{who}, forwarded from {label('user', quote.forwarded_from)}" if quote.forwarded_from else who


def replying(origin: Origin, most: int = REPLIED_CHARACTERS) -> str:
    """` (in topic 5) (replying to Bob: "…")`, of which the words close nothing; "" for what is in no topic and replies to nothing that has words."""
    quote, topic = origin.quote, f" (in topic {origin.topic})" if origin.topic else ""
    if quote is None or not quote.text:
        return topic
    said = shorten(one_line(quote.text), most).replace('")', "')")
    return f'{topic} (replying to {author_of(quote)}: "{said}")'
