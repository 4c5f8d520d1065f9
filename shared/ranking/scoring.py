"""The arithmetic of the ranking: every item of one chat gets a score, from words, meaning and what surrounds it. Pure, numpy only.

An item is a chunk; items are in the order of time, n of them. An array is float32 of shape (n,), one value an item, unless it says otherwise.

    tf'_i = Σ_j w_ij tf_j      w_ij = exp(-|c_i - c_j| / reach), c the centres in characters, j in the session of i, w_ii = 1
    bm25  = Σ_terms idf · tf' (k1 + 1) / (tf' + k1 (1 - b + b dl' / mean dl'))      idf = ln(1 + (n - df + .5) / (df + .5)), df = #(tf' > 0)
    own   = the same with w_ij = 0 for other items, b = .4
    score = .50 unit(bm25) + .10 unit(own) + .25 unit(cos) + .15 unit(Σ_j w_ij unit(cos)_j / Σ_j w_ij) + what shared/ranking/question.py adds

These weights are for talk between people. The more of an assistant one side is (`Sides`), the more those of `ASSISTED` count.

The fewer of the question's words are found in any item (`words_heard`), the less counts what words, neighbours and the kind of an item say, and the
more each item's own meaning.

What people are shown is of another kind, comparable from one question to the next (`words_share`): it decides no order.

BM25 as Robertson and Zaragoza (2009) write it, over the chat alone; unit(x) = (x - min) / (max - min) over all items, which keeps how much
better a match is (ranks alone lose 3.4 to 5.6 points of recall@10). A chat is its own collection: what is rare in it is rare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shared.ranking.question import ASSISTED, WEIGHTS, Weights

Array = NDArray[np.float32]
#: Two equal vectors' cosines differ by their places in a matrix product (1.5e-8); all that is scaled is of the order of 1 or above.
ROUNDING = 1e-6
Integers = NDArray[np.int32]
#: Where one term stands: ordinals of items, each once (in a file ascending), and how often in each.
Posting = tuple[Integers, NDArray[np.uint16]]


class Neighbours:
    """The kernel w of one chat: what stands near an item in its session, by distance in characters."""

    def __init__(self, lengths: Array, starts: NDArray[np.float64], weights: Weights = WEIGHTS) -> None:
        """`lengths` in characters, `starts` in POSIX seconds, both (n,) in the order of time."""
        self.n, self._weights = len(lengths), weights
        session = np.cumsum(np.diff(starts, prepend=starts[:1]) > weights.session_gap_seconds)
        # Running sums of a long chat need more than float32's 24 bits.
        ends = np.cumsum(lengths.astype(np.float64) + 1)
        centres = ends - (lengths + 1) / 2
        #: By distance: the weight of item i for item i + distance at i + distance, with `distance` zeros at either end, so that `scatter` needs
        #: no look at the borders.
        self._rows: list[tuple[int, Array]] = []
        for distance in range(1, min(weights.reach_items, self.n - 1) + 1):
            near = np.exp((centres[:-distance] - centres[distance:]) / weights.reach_characters)
            same = session[distance:] == session[:-distance]
            self._rows.append((distance, np.pad(np.where(same, near, 0).astype(np.float32), distance)))
        self.total = self.spread(np.ones(self.n, np.float32))
        self.continues = np.concatenate([[False], session[1:] == session[:-1]])[: self.n]

    def spread(self, values: Array) -> Array:
        """Each item's value and its neighbours', weighted."""
        out, product = values.astype(np.float32), np.empty(self.n, np.float32)
        for distance, near in self._rows:
            within, some = near[distance:-distance], product[distance:]
            out[distance:] += np.multiply(within, values[:-distance], out=some)
            out[:-distance] += np.multiply(within, values[distance:], out=some)
        return out

    def best_of_session(self, values: Array) -> Array:
        """The best value of each item's session."""
        if not self.n:
            return values
        firsts = np.flatnonzero(~self.continues)
        return np.repeat(np.maximum.reduceat(values, firsts), np.diff(firsts, append=self.n))

    def scatter(self, ordinals: Integers, values: Array) -> Array:
        """The same for values at few items, zero elsewhere: work by their number, not by that of the chat."""
        reach = self._rows[-1][0] if self._rows else 0
        out = np.zeros(self.n + 2 * reach, np.float32)
        at = ordinals.astype(np.intp)  # once, not at each use
        out[at + reach] = values
        for distance, near in self._rows:
            out[at + (reach + distance)] += near[at + distance] * values
            out[at + (reach - distance)] += near[at] * values
        return out[reach : reach + self.n]


#: A term in fewer than one of so many items is scattered: there both ways take the same time at 100,000 items.
SPARSE = 15


@dataclass(frozen=True)
class Question:
    """What is asked of a chat: where its terms stand, and what else is known of the answer."""

    postings: list[Posting]
    speaker: Array  # 1 for items of the speaker that is meant
    when: bool
    said_then: Array | None = None  # 1 for items of the time that is named
    from_now: bool = False  # that time was counted from the day of asking
    dated: Array | None = None  # 0 to 1: how much the item counts as one of the days that are asked for, which it names
    missing: int = 0  # terms that stand nowhere
    notes: Array | None = None  # BM25 of the best note of each item, 0 without one
    prefers: Array | None = None  # 1 where somebody says what he prefers; None unless the question asks for advice


#: An answer of so many times the length of a message makes no difference yet; one of `FULL` times makes all of it. Medians of each side.
LEAST, FULL = 2.0, 4.0


@dataclass(frozen=True, eq=False)
class Sides:
    """Who tells and who answers in a chat, measured over its items in the order of time.

    Between people both sides tell, at about the same length. A person tells an assistant something in short messages and gets long answers, which
    repeat the person's words at length: what was said stands in the short message. How much a chat is of that kind is a number from 0 to 1.
    """

    assistant: NDArray[np.bool_]  # said by an assistant without a name
    lengths: Array  # characters

    @cached_property
    def firsts(self) -> NDArray[np.intp]:
        """The first item of each run: items of one side that follow each other, such as the passages of an answer."""
        return np.flatnonzero(
            np.concatenate([[True], self.assistant[1:] != self.assistant[:-1]])[: len(self.assistant)]
        )

    @cached_property
    def share(self) -> float:
        """How much of an assistant the answering side is: 0 where it has a name, or answers no longer than the other side writes; at most 1."""
        if self.assistant.all() or not self.assistant.any():
            return 0.0
        runs, answers = np.add.reduceat(self.lengths, self.firsts), self.assistant[self.firsts]
        times = np.median(runs[answers]) / max(1.0, float(np.median(runs[~answers])))
        return float(np.clip(np.log(max(times, LEAST) / LEAST) / np.log(FULL / LEAST), 0.0, 1.0))


@dataclass(frozen=True)
class Features:
    """What is known of a chat's items before anybody asks."""

    tokens: Array
    lengths: Array  # characters
    asks: Array  # 1: ends as a question
    timed: Array  # 1: names a time
    neighbours: Neighbours
    sides: Sides

    @cached_property
    def tokens_near(self) -> Array:
        """The tokens of an item and its neighbours."""
        return self.neighbours.spread(self.tokens)

    @cached_property
    def information(self) -> Array:
        """ln(1 + characters)."""
        return np.log1p(self.lengths)


@dataclass(frozen=True)
class Scored:
    """Scores of all items, the parts that add up to them by name, and the raw signals (None: it was not asked; NaN: the item has no vector)."""

    total: Array
    parts: dict[str, Array]
    bm25: Array
    cosine: Array | None
    words: Array | None = None  # share of the question's words in each item; None of a question without any
    notes: Array | None = None  # bm25 of the best note of each item; None without notes

    def explain(self, items: Integers | Sequence[int]) -> list[dict[str, float]]:
        """Of each of these items the total, every part of it, the raw signals, and the share of the words; no `cosine` of one without a vector."""
        named = {"total": self.total, **self.parts, "bm25": self.bm25}
        if self.cosine is not None:
            named["cosine"] = self.cosine
        if self.words is not None:
            named["words"] = self.words
        chosen = np.asarray(items, np.intp)
        columns = [values[chosen].tolist() for values in named.values()]
        rows = [dict(zip(named, row, strict=True)) for row in zip(*columns, strict=True)]
        for row in rows:
            if math.isnan(row.get("cosine", 0.0)):
                del row["cosine"]
        return rows


def unit(values: Array) -> Array:
    """Scaled to 0..1; zeros if all are equal, up to ROUNDING: else noise would decide as if it were a difference."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high - low > ROUNDING else np.zeros_like(values)


def bm25(postings: Iterable[Posting], features: Features, weights: Weights = WEIGHTS) -> Array:
    """Okapi BM25 over items with their neighbours; 0 where none of the terms is near."""
    near = features.neighbours
    out = np.zeros(near.n, np.float32)
    if not near.n:
        return out
    norm = _norm(features.tokens_near, weights.k1, weights.b)
    for ordinals, counts in postings:
        there = _counts(ordinals, counts.astype(np.float32), near)
        # A term is near many items: all of them at once takes less time than picking those out.
        out += _gain(near.n, int(np.count_nonzero(there > 0)), weights.k1) * (there / (there + norm))
    return out


def own_bm25(postings: Iterable[Posting], features: Features, weights: Weights = WEIGHTS) -> Array:
    """Okapi BM25 over the items alone."""
    n = features.neighbours.n
    out = np.zeros(n, np.float32)
    if not n:
        return out
    norm = _norm(features.tokens, weights.k1, weights.own_b)
    for ordinals, counts in postings:
        at, there = ordinals.astype(np.intp), counts.astype(np.float32)
        out[at] += _gain(n, len(at), weights.k1) * (there / (there + norm[at]))
    return out


def _norm(lengths: Array, k1: float, b: float) -> Array:
    """What a term's frequency is measured against, by the item's length."""
    return np.float32(k1 * b / (float(lengths.mean()) or 1)) * lengths + np.float32(k1 * (1 - b))


def _gain(n: int, df: int, k1: float) -> np.float32:
    """The most that a term which `df` of `n` items have can add to one."""
    return np.float32(rarity(n, df) * (k1 + 1))


def rarity(n: int, df: int) -> np.float64:
    """idf of a term that `df` of `n` items have."""
    return np.float64(np.log(1 + (n - df + 0.5) / (df + 0.5)))


def words_share(question: Question, n: int) -> Array | None:
    """Share (0 to 1) of the question's terms that stand in each of `n` items, each counted by its rarity; None for a question without terms.

    A term that stands nowhere counts as the rarest: what was never said is not found, however well the rest is.
    """
    known = [(rarity(n, len(ordinals)), ordinals) for ordinals, _ in question.postings]
    whole = sum(weight for weight, _ in known) + question.missing * rarity(n, 0)
    if not whole:  # no term at all: even one that all items have is counted
        return None
    out = np.zeros(n, np.float32)
    for weight, ordinals in known:
        out[ordinals] += np.float32(weight / whole)
    return np.minimum(out, 1.0)


def _counts(ordinals: Integers, counts: Array, near: Neighbours) -> Array:
    if len(ordinals) * SPARSE < near.n:
        return near.scatter(ordinals, counts)
    dense = np.zeros(near.n, np.float32)
    dense[ordinals] = counts
    return near.spread(dense)


def known(similarities: Array) -> Array | None:
    """Similarities without holes: an item that has none (NaN) does not widen their range; None if there is none at all."""
    missing = np.isnan(similarities)
    if not missing.any():
        return similarities.astype(np.float32, copy=False) if len(similarities) else None
    if missing.all():
        return None
    return np.where(missing, np.nanmin(similarities), similarities).astype(np.float32)


def score(question: Question, features: Features, similarities: Array | None, weights: Weights | None = None) -> Scored:
    """Score every item; `similarities` are cosines (NaN: unknown), None where there are no vectors. Without `weights` those of the chat's kind."""
    weights = weights or WEIGHTS.towards(ASSISTED, features.sides.share)
    near, share = features.neighbours, words_share(question, features.neighbours.n)
    cosine, meaning = None if similarities is None else known(similarities), None
    heard = 1.0 if cosine is None or share is None else words_heard(share, weights)
    words = bm25(question.postings, features, weights)
    lexical, own = unit(words), unit(own_bm25(question.postings, features, weights))
    parts = {"lexical": heard * weights.lexical * lexical, "own_words": heard * weights.own_words * own}
    if similarities is not None and cosine is not None:
        meaning = unit(cosine)
        if cosine is not similarities:
            meaning = np.where(np.isnan(similarities), lexical, meaning)  # without a vector its words speak for it
        parts["vector"] = (weights.vector + (1 - heard) * weights.vector_alone) * meaning
        if weights.context_vector:
            parts["context_vector"] = heard * weights.context_vector * unit(near.spread(meaning) / near.total)
    parts["session"] = heard * weights.session * unit(near.best_of_session(own if meaning is None else own + meaning))
    parts |= {name: heard * values for name, values in _priors(features, weights).items()}
    if question.notes is not None:
        parts["notes"] = weights.notes * unit(question.notes)
    parts["speaker"] = weights.speaker * question.speaker
    if question.prefers is not None:
        parts["prefers"] = weights.prefers * question.prefers * ~features.sides.assistant
    if question.when:
        parts["when"] = weights.when * features.timed
    if question.said_then is not None:
        weight = weights.said_when_asked if question.from_now else weights.said_then
        parts["said_then"] = weight * question.said_then
    if question.dated is not None:
        parts["dated"] = weights.said_when_asked * question.dated
    total = np.zeros(near.n, np.float32)
    for part in parts.values():
        total += part
    return Scored(total, parts, words, similarities if cosine is not None else None, share, question.notes)


def words_heard(share: Array, weights: Weights = WEIGHTS) -> float:
    """How much words tell of where the answer is, 0 to 1, by the share of the question's words in each item: nothing where the best item has hardly
    one of them, as of a question in other words or in another language than the talk."""
    return min(1.0, max(0.0, (float(share.max(initial=0)) - weights.unheard) / (weights.heard - weights.unheard)))


def _priors(features: Features, weights: Weights) -> dict[str, Array]:
    """What speaks for an item whatever is asked."""
    after_question = np.zeros_like(features.asks)
    after_question[1:] = features.asks[:-1]
    parts = {
        "length": weights.length * np.minimum(features.information, np.float32(math.log1p(weights.length_cap))),
        "asks": -weights.asks * features.asks,
        "answers": weights.answers * after_question * features.neighbours.continues,
    }
    if weights.assistant:
        parts["assistant"] = -weights.assistant * features.sides.assistant.astype(np.float32)
    return parts


def best(scored: Scored, k: int, *, only_found: bool, inside: NDArray[np.bool_] | None = None) -> Integers:
    """Ordinals of the `k` best items, best first, the newer one of equals; `only_found`: among items that a term of the question is near, or
    that a note with one describes.

    `inside`, of shape (n,): among items that are true there.
    """
    among = np.arange(len(scored.total))
    if only_found:
        among = np.flatnonzero(scored.bm25 if scored.notes is None else scored.bm25 + scored.notes)
    among = among if inside is None else among[inside[among]]
    totals = scored.total[among]
    if k < len(among):
        border = np.partition(totals, len(totals) - k)[len(totals) - k]
        among, totals = among[totals >= border], totals[totals >= border]
    return among[np.lexsort((-among, -totals))][:k].astype(np.int32)


# ── The evidence that a lookup has of a message (shared/ranking/injection.py).


#: In a chat of fewer items than this no word is common.
FEW_ITEMS = 20


def coverage(words: Sequence[Sequence[str]], postings: Mapping[str, Posting], n: int) -> tuple[float, float, int]:
    """(greatest share of these words, each by its rarity, that stand in one of n items or beside it, that rarity, how many stand anywhere).

    Each word is given as its terms. What stands nowhere is as rare as a word can be.
    """
    held, weight, found, many = np.zeros(n, np.float32), 0.0, 0, max(n, FEW_ITEMS)
    for terms in words:
        there = np.zeros(n, bool)
        for term in terms:
            if term in postings:
                there[postings[term][0]] = True
        often = int(np.count_nonzero(there))
        rarity = math.log(1 + (many - often + 0.5) / (often + 0.5))
        weight += rarity
        if often:
            found += 1
            beside = there.copy()
            beside[1:] |= there[:-1]
            beside[:-1] |= there[1:]
            held[beside] += rarity
    most = float(held.max()) if n else 0.0
    return most / weight if weight else 0.0, most / math.log(2 + 2 * many), found


def best_cosine(cosines: Array | None) -> float | None:
    """The highest cosine; None where there are none, or not for nearly all items.

    A few may wait for their vector: up to two items and a quarter of a small chat, of a large one a tenth.
    """
    if cosines is None or not len(cosines):
        return None
    known = cosines[~np.isnan(cosines)]
    missing = len(cosines) - len(known)
    if 4 * missing > len(cosines) or missing > max(2, len(cosines) // 10):
        return None
    return float(known.max())


def standing(postings: Mapping[str, Posting], n: int) -> Array:
    """How many of these terms stand in each item."""
    out = np.zeros(n, np.float32)
    for ordinals, _ in postings.values():
        out[ordinals] += 1
    return out
