"""Recall gate: is what the current release finds still found in the new one? The same questions to both, compared pair by pair.

A question is made of a chunk's own words, so the right answer is known: that chunk. Only chunks that both releases hold are asked for, and
the new release's rank counts these alone: a chat that has grown is no worse for it. Pure functions; shared/delivery/trial.py does the asking.

    far down  → the night is refused (`--accept` overrides)         a chat gone → the same
    down      → the night says so and goes on                       another chat's row, no vectors, a crash → refused, whatever was accepted
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

from shared.release.manifest import Manifest
from shared.turns.chunk import Chunk

#: Questions at most, and chats at most that they come from: seconds, also where each chat is an index of its own.
PROBES = 100
PROBED_CHATS = 25
#: A chunk counts as found among this many, and this many are asked for, since new chunks do not count.
FOUND_WITHIN = 10
ASKED = 50
#: Words of a question.
WORDS = 6
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
    """Questions spread over chats and chunks, the same ones for the same chunks."""
    per_chat: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        per_chat[chunk.chat_id].append(chunk)
    chats = sorted(per_chat, key=_shuffled)[:PROBED_CHATS]
    columns = [sorted(per_chat[chat], key=lambda chunk: _shuffled(chunk.chunk_id)) for chat in chats]
    in_turn = (chunk for chunk in chain.from_iterable(zip_longest(*columns)) if chunk is not None)
    asked = (Probe(chunk.chat_id, question_of(chunk.text), chunk.chunk_id) for chunk in in_turn)
    return list(islice((probe for probe in asked if probe.question), PROBES))


def _shuffled(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8")).digest()


def question_of(text: str) -> str:
    """The longest different words of a text, in their order."""
    words = list(dict.fromkeys(_WORD.findall(text)))
    longest = set(sorted(words, key=lambda word: (-len(word), words.index(word)))[:WORDS])
    return " ".join(word for word in words if word in longest)


def found(ranked: list[str], chunk_id: str, in_both: set[str]) -> bool:
    """Whether the chunk is among the first of those that both releases hold."""
    return chunk_id in [other for other in ranked if other in in_both][:FOUND_WITHIN]


def verdict(before: list[bool], now: list[bool], gone: list[str]) -> dict[str, Any]:
    """The gate's record: counts, and `refuse` and `warn` as sentences or None."""
    pairs = Counter(zip(before, now, strict=True))
    lost, won = pairs[True, False], pairs[False, True]
    counts = f"{sum(now)} of {len(now)} questions are answered, {sum(before)} were by the current release"
    refuse = warn = None
    if gone:
        refuse = f"{len(gone)} chats that can be recalled now would have nothing to recall."
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


def chats_gone(new: Manifest, current: Manifest) -> list[str]:
    """Chats with chunks now and none in the new release, though not all of their turns are to be forgotten."""
    return [
        chat
        for chat, count in current.chunks_per_chat.items()
        if count
        and not new.chunks_per_chat.get(chat)
        and (new.turns_per_chat.get(chat) or not new.forgotten_per_chat.get(chat))
    ]
