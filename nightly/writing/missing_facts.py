"""What a model left out of a summary, as a pure function: names, numbers, dates and links of the extractive summary that its text lacks.

A summary that reads well but has lost the one number that a user asks for is worse than none. So each chosen sentence with such a word is
added again word for word, until the space is used up. A number counts as present only if it is written the same way ("110" is not in "1100",
and "27 November" is not "2026-11-27"): an extra sentence is cheaper than a missing fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.ranking.extractive_summary import Sentence

_LINK = re.compile(r"https?://[^\s<>\"')\]]+")
_NUMBER = re.compile(r"[\w.,:/@+%-]*\d[\w.,:/@+%-]*")
_WORD = re.compile(r"[^\W\d_]+")
#: After these a capital says nothing: a sentence begins.
_OPENING = tuple(".!?…:\"“„'‘")
_EDGES = ".,:/-+@"


def put_back(chosen: Sequence[Sentence], written: str, characters: int) -> tuple[list[Sentence], int]:
    """(sentences that hold what `written` lacks, in the order given; how many such words had no room)."""
    present = _links(written) | _numbers(written) | {word.casefold() for word in _WORD.findall(written)}
    missing = {sentence: facts(sentence.text) - present for sentence in chosen}
    back: set[Sentence] = set()
    lost: set[str] = set()
    for sentence in sorted(chosen, key=lambda s: (-len(missing[s]), -s.order)):
        wanted = missing[sentence] - present
        cost = len(sentence.text) + len(sentence.speaker) + len("- 2026-11-20 : \n")
        if wanted and cost <= characters:
            back.add(sentence)
            characters -= cost
            present |= facts(sentence.text)
        elif wanted:
            lost |= wanted
    return [sentence for sentence in chosen if sentence in back], len(lost - present)


def facts(text: str) -> set[str]:
    """Links as they are; numbers, dates and names without regard to case."""
    return _links(text) | _numbers(text) | _names(text)


def _links(text: str) -> set[str]:
    return {link.rstrip(_EDGES) for link in _LINK.findall(text)}


def _numbers(text: str) -> set[str]:
    return {number.strip(_EDGES).casefold() for number in _NUMBER.findall(_LINK.sub(" ", text))}


def _names(text: str) -> set[str]:
    """Words with a capital that do not begin a sentence."""
    text = _LINK.sub(" ", text)
    found = set()
    for match in _WORD.finditer(text):
        before = text[: match.start()].rstrip().lstrip(" -*•")
        if len(match[0]) > 1 and match[0][0].isupper() and before and not before.endswith(_OPENING):
            found.add(match[0].casefold())
    return found
