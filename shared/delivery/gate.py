"""Recall gate: whether the new release still finds what the current one finds. Both get the same questions; answers are compared in pairs.

A question is made of a chunk's own words, so the right answer is known: that chunk. Only chunks in both releases are used, and ranks count
only these, so that a chat that has grown is not worse for it. Pure functions; shared/delivery/trial.py asks the questions.

    far less  → the release is refused (`--accept` overrides)       a chat missing → the same
    less      → the night warns and continues                       another chat's row, no vectors, a crash → refused, even with --accept
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

from shared.release.chats import Counts
from shared.turns.chunk import Chunk

#: Maximum number of questions, and of chats that they come from: takes seconds, even if each chat has its own index.
PROBES = 100
PROBED_CHATS = 25
#: A chunk counts as found among the first FOUND_WITHIN hits; ASKED hits are requested, since new chunks do not count.
FOUND_WITHIN = 10
ASKED = 50
#: Words of a question.
WORDS = 6
#: Share of the questions that goes to chats with news.
NEWS_SHARE = 0.6
#: Shares of the questions, and numbers of them, by which the new release may find less than the current one.
REFUSE_SHARE, REFUSE_LEAST = 0.20, 4
WARN_SHARE, WARN_LEAST = 0.05, 2

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Probe:
    """A question to one chat, and the chunk that answers it."""

    chat_id: str
    question: str
    chunk_id: str


def choose(chunks: Iterable[Chunk]) -> list[Probe]:
    """Questions spread over chats and chunks; the same chunks always give the same questions."""
    per_chat: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        per_chat[chunk.chat_id].append(chunk)
    chats = sorted(per_chat, key=_shuffled)[:PROBED_CHATS]
    columns = [sorted(per_chat[chat], key=lambda chunk: _shuffled(chunk.chunk_id)) for chat in chats]
    in_turn = (chunk for chunk in chain.from_iterable(zip_longest(*columns)) if chunk is not None)
    asked = (Probe(chunk.chat_id, question_of(chunk.text), chunk.chunk_id) for chunk in in_turn)
    return list(islice((probe for probe in asked if probe.question), PROBES))


def sampled(first: Iterable[str], chats: Collection[str], run: int, count: int) -> list[str]:
    """`count` of these chats: those of `first` for NEWS_SHARE of it, the others in turns, from run to run, so that each is asked at some time.

    All of them if there are no more. The same arguments always give the same chats.
    """
    if len(chats) <= count:
        return sorted(chats)
    known = frozenset(chats)
    news = [chat for chat in dict.fromkeys(first) if chat in known][: int(count * NEWS_SHARE)]
    others = sorted(known.difference(news))
    room = count - len(news)
    return [*news, *(others[(number * len(others) // room + run) % len(others)] for number in range(room))]


def _shuffled(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8")).digest()


def question_of(text: str) -> str:
    """The longest different words of a text, in their order."""
    words = list(dict.fromkeys(_WORD.findall(text)))
    longest = set(sorted(words, key=lambda word: (-len(word), words.index(word)))[:WORDS])
    return " ".join(word for word in words if word in longest)


def found(ranked: list[str], chunk_id: str, in_both: set[str]) -> bool:
    """Whether the chunk is among the first hits that both releases contain."""
    return chunk_id in [other for other in ranked if other in in_both][:FOUND_WITHIN]


def verdict(before: list[bool], now: list[bool], gone: list[str]) -> dict[str, Any]:
    """The gate's record: counts, and `refuse` and `warn` as sentences or None."""
    pairs = Counter(zip(before, now, strict=True))
    lost, won = pairs[True, False], pairs[False, True]
    counts = f"{sum(now)} of {len(now)} questions find their answer, {sum(before)} do in the current release"
    refuse = warn = None
    if gone:
        refuse = f"{len(gone)} chats can be recalled now, but would have no chunks in the new release."
    elif lost - won >= REFUSE_LEAST and lost - won > REFUSE_SHARE * len(now):
        refuse = f"The new release finds far less: {counts}."
    elif lost - won >= WARN_LEAST and lost - won > WARN_SHARE * len(now):
        warn = f"The new release finds less: {counts}."
    return {
        "questions": len(now),
        "found_before": sum(before),
        "found_now": sum(now),
        "lost": lost,
        "won": won,
        "refuse": refuse,
        "warn": warn,
    }


def chats_gone(both: Iterable[tuple[str, Counts, Counts]]) -> list[str]:
    """Chats that have chunks now and none in the new release, although not all of their turns are to be forgotten. `both`: the counts of each chat
    that may differ, in the new release and in the current one (shared/release/chats.py)."""
    return [
        chat
        for chat, now, before in both
        if before["chunks"] and not now["chunks"] and (now["turns"] or not now["forgotten"])
    ]
