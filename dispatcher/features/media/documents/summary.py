"""What a document says in short: by this its turn is found, and so much of it stands in its label."""

from __future__ import annotations

from shared.text.format import one_line, shorten
from shared.turns.media import LABEL_CHARACTERS

#: Sentences beside the beginning, and how much of the beginning there is. Characters.
SENTENCES, BEGINNING_CHARACTERS = 3, 120


def summary_of(text: str) -> str:
    """Its beginning and the sentences that tell most, of the document's own words; "" for a text that is short enough to be told whole."""
    from shared.ranking.extractive_summary import summarise
    from shared.turns.chunk import Chunk
    from shared.turns.chunking import clean, passages

    text = clean(text)
    if len(text) <= LABEL_CHARACTERS:
        return ""
    first = next(line for line in text.splitlines() if any(map(str.isalnum, line)))
    chunks = [Chunk(f"#{at}", "", "", ("",), "user", "", part, at, at) for at, part in enumerate(passages(text))]
    chosen = summarise(chunks, SENTENCES)
    told = [one_line(one.text) for one in chosen]
    begun = shorten(one_line(first), BEGINNING_CHARACTERS)
    return shorten(
        " … ".join(dict.fromkeys([begun, *(one for one in told if one != one_line(first))])), LABEL_CHARACTERS
    )
