"""Which languages the turns of a release are in: a hint for choosing an embedding model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shared.text.language import detect
from shared.turns.chunk import Chunk

#: Texts that are looked at, spread over all.
LOOKED_AT = 500
#: From this share of English on, a model for English fits.
MOSTLY_ENGLISH = 0.95


def spoken(chunks: Sequence[Chunk]) -> dict[str, float]:
    """Language (ISO 639-1) -> its share of the texts whose language is clear, the most frequent first; empty if none is."""
    step = max(1, len(chunks) // LOOKED_AT)
    found = Counter(language for chunk in chunks[::step] if (language := detect(chunk.text)))
    return {language: count / found.total() for language, count in found.most_common()}


def sentence(shares: dict[str, float]) -> str | None:
    """The same for people, and what follows for the model; None without an answer."""
    if not shares:
        return None
    shown = ", ".join(f"{language} {100 * share:.0f} %" for language, share in list(shares.items())[:4])
    mostly = shares.get("en", 0.0) >= MOSTLY_ENGLISH
    return f"Your turns: {shown}. {'A model for English fits.' if mostly else 'Choose a model for many languages.'}"
