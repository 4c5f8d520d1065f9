"""What a new fact is to a known one: the same, its correction, or another one. Pure functions of two texts; when in doubt, another one.

Near in the vector space is a question and no answer: "blue" and "green" are nearer to each other than "called" and "named" (.78 and .56 in the shipped
model). So the words decide. Both texts are brought to words of content (wording.py), with negations counted and names, numbers and
sets of words that exclude each other ("Monday", "married") known as such. Then

    the same       the same words of content, whatever their order allows; as many negations
    its correction the same but for a negation; or the same subject and verb, a subject that has one value at a time, and another value of
                   the same kind: a number for a number, a name for a name, a word for its opposite
    another one    everything else: both stay
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from dispatcher.wording import (
    ATTRIBUTE_STARTS,
    ATTRIBUTES,
    DENIALS,
    EXCLUSIVE,
    FOREIGN,
    LABELS,
    LEADS,
    LIGHT,
    NUMBERS,
    ONE_AT_A_TIME,
    OPPOSITES,
    PAST,
    SEVERAL,
    STATES,
    SYNONYMS,
    TIMELESS,
    TIMES,
    VERBS,
    WHERE,
)
from shared.caches import cached
from shared.stemming import stem


#: Cosine from which two texts may say the same in other words, and the words of each that the other need not have.
PARAPHRASED, MOST_LEFT = 0.85, 2


class Relation(StrEnum):
    """What a new text is to a known one."""

    SAME = "same"
    CORRECTS = "corrects"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Word:
    """A word as written, as compared, and what it may be exchanged for: "number", "name", a set of wording.EXCLUSIVE, or "word"."""

    text: str
    root: str
    kind: str

    @property
    def light(self) -> bool:
        return self.text in LIGHT and self.kind == "word"


@dataclass(frozen=True)
class Statement:
    """A text in parts. `verb` is "" where none is known: then all is subject."""

    subject: tuple[Word, ...]
    verb: str
    value: tuple[Word, ...]
    denied: bool
    past: bool
    foreign: bool

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """Words of content in their order; "be" says nothing, other verbs do."""
        verb = [Word(self.verb, self.verb, "word")] if self.verb not in ("", "be", "have") else []
        return tuple(word for word in (*self.subject, *verb, *self.value) if not word.light)

    @cached_property
    def bag(self) -> frozenset[str]:
        return frozenset(word.root for word in self.content)

    @cached_property
    def about(self) -> Counter[str]:
        """The subject's words of content."""
        return Counter(word.root for word in self.subject if not word.light)


_WORDS = re.compile(r"\w+(?:[-.:/@]\w+)*|[—–=:]")
_REWRITES = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in [
        (r"\b(?:actually|in fact|correction|update)\b\s*[,:]\s*", ""),
        (r"\bcannot\b|\bcan['’]t\b", "can not"),
        (r"\bwon['’]t\b", "will not"),
        (r"n['’]t\b", " not"),
        (r"\bcan not (?:stand|bear)\b", "hates"),
        (r"\b(he|she|it|that|there|who)['’]s\b", r"\1 is"),
        (r"\bi['’]m\b", "i am"),
        (r"['’]s\b|(?<=s)['’](?=\s)", ""),
        (r"\b(?:no longer|not any ?more|(?:has |have )?(?:stopped|quit|given up|gave up)|used to)\b", "not"),
        (r",? instead of [^,]+$|(?:,| and) not [^,]+$", ""),
        (r"\b(?:has |have |had |was |is |got |been )*(?:changed|renamed|switched|updated|reset|set|postponed|rescheduled|moved)"
         r"(?: from \S+)? to (?=\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day)", "is "),
        (r"\b(?:has |have |was |is |got |been )+(?:changed|renamed|switched|updated|reset|set)(?: from \S+)? to\b", "is"),
        (r"\b(?:has |have |had )?(?:moved|relocated) (?:from \S+ )?to\b", "lives in"),
        (r"\b(?:has |have |had )?(?:moved|relocated) into\b", "lives in"),
        (r"\b(?:is|are|am) (?:now )?living\b", "lives"),
        (r"\b(?:is|are|am) (?:now )?(?:working|employed)\b", "works"),
        (r"\b(?:is|are|am) (?:now )?based\b", "lives"),
        (r"\bgot (?=married|divorced|engaged)", "is "),
        (r"\bdate of birth\b", "birthday"),
        (r"\b(?:was|is) born (?:on|in)\b", "birthday is"),
        (r"\b(?:is|am) (\w+) years? old\b", r"age is \1"),
        (r"\b(?:is|am) aged (\d+)\b", r"age is \1"),
        (r"\b(?:is|are) called\b|\bgoes by(?: the name(?: of)?)?\b", "name is"),
        (r"\bheißt\b|\bheisst\b", "name ist"),
        (r"\bs['’]appelle\b", "nom est"),
        (r"\b(?:d|l|j|c|qu|n|s|m|t)['’]", " "),
    ]
]  # fmt: skip
_OF = re.compile(r"\b((?:[\w-]+ )?[\w-]+) of ((?:the |my |a |an )?(?:[\w-]+ ?){1,3}?)(?= (?:is|are|was)\b|:|$)", re.IGNORECASE)
_CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)


def relation(known: str, new: str, cosine: float | None = None, *, preference: bool = False) -> Relation:
    """What `new` is to `known`; `cosine` is that of their vectors, if there are any. `preference`: both say how somebody wants things."""
    one, two = statement(known), statement(new)
    if one.bag == two.bag and one.bag:
        return _of_same_words(one, two)
    if one.denied != two.denied or one.foreign != two.foreign:
        return Relation.DIFFERENT
    if one.past or two.past:
        return Relation.DIFFERENT
    if not one.denied and _corrected(one, two, preference=preference):
        return Relation.CORRECTS
    if cosine is not None and cosine >= PARAPHRASED and not one.foreign and _paraphrased(one, two):
        return Relation.SAME
    return Relation.DIFFERENT


def _paraphrased(one: Statement, two: Statement) -> bool:
    """Whether two texts, near in the vector space, may say the same: what is left over of both are a few plain words in another construction.

    Two texts that differ in a word at the same place are made alike to tell two things apart.
    """
    left = [word for word in one.content if word.root not in two.bag]
    right = [word for word in two.content if word.root not in one.bag]
    if {one.verb, two.verb} in ({"be", "work"}, {"be", "speak"}) and len(left) + len(right) == 1:
        return one.verb in one.bag ^ two.bag or two.verb in one.bag ^ two.bag  # "is a nurse", "works as a nurse"
    if not left or not right or len({w.root for w in left}) > MOST_LEFT or len({w.root for w in right}) > MOST_LEFT:
        return False
    if any(word.kind != "word" or word.text in LEADS or word.root in SEVERAL for word in (*left, *right)):
        return False
    if any(_opposed(a.root, b.root) for a in left for b in right) or len(one.bag & two.bag) < max(len(left), len(right)):
        return False
    first, second = ([word.root if word.root in one.bag & two.bag else "" for word in told.content] for told in (one, two))
    return first != second and _keeps_roles(one, two)


def _of_same_words(one: Statement, two: Statement) -> Relation:
    if one.denied != two.denied:
        return Relation.CORRECTS
    if one.past != two.past:
        return Relation.DIFFERENT
    if {one.verb, two.verb} == {"be", "have"} and {w.text for w in one.content} == {w.text for w in two.content}:
        return Relation.DIFFERENT  # to be a mother is not to have one
    first, second = [word.root for word in one.content], [word.root for word in two.content]
    if first == second or _turned(one, two) or (_one_block_moved(first, second) and _keeps_roles(one, two)):
        return Relation.SAME
    compares = all(re.search(r"\b(?:over|than|rather)\b", " ".join(w.text for w in s.value)) for s in (one, two))
    return Relation.CORRECTS if compares else Relation.DIFFERENT


def _turned(one: Statement, two: Statement) -> bool:
    """X is Y, and Y is X."""
    return one.verb == two.verb == "be" and one.about == Counter(w.root for w in two.value if not w.light)


def _one_block_moved(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two neighbouring pieces of one, exchanged, give the other."""
    start = next((at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b), 0)
    end = len(first) - next((at for at, (a, b) in enumerate(zip(first[::-1], second[::-1], strict=True)) if a != b), 0)
    one, two = list(first[start:end]), list(second[start:end])
    return any(one[cut:] + one[:cut] == two for cut in range(1, len(one)))


def _keeps_roles(one: Statement, two: Statement) -> bool:
    """Whether several names, numbers or persons stand in the same order: "Tom owes Anna" is not "Anna owes Tom"."""
    names = {word.root for told in (one, two) for word in told.content if word.kind == "name"}

    def order(told: Statement, kind: str) -> list[str]:
        if kind == "person":
            return [word.root for word in told.content if word.root in SEVERAL or word.root in ("mother", "father", "boss", "wife", "husband")]
        return [word.root for word in told.content if word.kind == kind or (kind == "name" and word.root in names)]

    return all(order(one, kind) == order(two, kind) for kind in ("name", "number", "person"))


def _corrected(one: Statement, two: Statement, *, preference: bool) -> bool:
    if preference and _only_opposed(one.content, two.content, sets=True):
        return True
    if one.about != two.about or not one.verb or not two.verb:
        return False
    if one.verb != two.verb:
        same = Counter(w.root for w in one.value if not w.light) == Counter(w.root for w in two.value if not w.light)
        return same and bool(one.value) and _opposed(one.verb, two.verb)
    if one.verb not in STATES:
        return False
    left, right, before = _slot(one.value, two.value)
    if not left or not right:
        return False  # the one says more than the other
    return _replaces(one, left, right, before)


def _replaces(said: Statement, left: Sequence[Word], right: Sequence[Word], before: Word | None) -> bool:
    """Whether of a subject and a verb that are the same one value excludes the other; `before` is the word ahead of both."""
    kinds, others = [word.kind for word in left], [word.kind for word in right]
    alike = kinds == others
    kind = kinds[0] if alike and len(set(kinds)) == 1 else ""
    timed = alike and set(kinds) <= {"number", "weekday", "month"}
    one_value = said.verb in ONE_AT_A_TIME
    if said.verb == "be" and _has_one_value(said):
        return _lead(left) == _lead(right)
    if one_value:
        where, other = _lead(left) or _lead([before] if before else []), _lead(right) or _lead([before] if before else [])
        if where != other or (where and where not in WHERE.get(said.verb, "in on at").split()):
            return False
        if said.foreign:
            return len(left) == len(right) == 1
        phrases = sum(word.text in LEADS for word in (*left[1:], *right[1:]))
        return (timed and (said.verb in TIMES or set(kinds) == {"number"})) or (
            not phrases and not {"weekday", "month"} & {*kinds, *others} and ("name" in kinds) == ("name" in others)
        )
    if timed and set(kinds) == {"number"}:
        return not (before and before.root in LABELS)
    if said.verb != "be":
        return False
    return _excludes(said, left, right, kind, before, timed=timed)


def _excludes(
    said: Statement, left: Sequence[Word], right: Sequence[Word], kind: str, before: Word | None, *, timed: bool
) -> bool:
    """The same for "X is Y"."""
    if timed or (kind in set(EXCLUSIVE.values()) and kind != "language" and len(left) == 1):
        return True
    if len(left) == len(right) == 1 and _opposed(left[0].root, right[0].root):
        return True
    if not said.about or said.foreign:  # the user is many things
        return False
    head = [word for word in said.subject if not word.light][-1]
    if kind == "name":
        return head.kind != "name" and head.root not in SEVERAL
    place = (before and before.text in ("in", "on", "at")) or _lead(left) in ("in", "on")
    return bool(place) and kind in ("word", "") and head.kind != "name" and head.root not in SEVERAL and _lead(left) == _lead(right)


def _has_one_value(said: Statement) -> bool:
    roots = [word.root for word in said.subject if not word.light]
    if not roots:
        return False
    named = roots[-1] in ATTRIBUTES or "favourite" in roots or any(root.startswith(ATTRIBUTE_STARTS) for root in roots)
    return named or (said.foreign and any(root in ATTRIBUTES for root in roots))


def _lead(words: Sequence[Word]) -> str:
    return LEADS.get(words[0].text, "") if words else ""


def _only_opposed(one: Sequence[Word], two: Sequence[Word], *, sets: bool) -> bool:
    """Whether two texts of as many words differ in one, and that denies."""
    if len(one) != len(two):
        return False
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a.root != b.root]
    if len(pairs) != 1:
        return False
    (a, b), = pairs
    return _opposed(a.root, b.root) or (sets and a.kind == b.kind and a.kind in ("language",))


def _opposed(one: str, two: str) -> bool:
    return frozenset((one, two)) in OPPOSITES


def _slot(one: Sequence[Word], two: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word], Word | None]:
    """What is left of both when what they begin and end with alike is taken off, and the last word of the beginning."""
    one = [word for word in one if word.text in LEADS or not word.light]
    two = [word for word in two if word.text in LEADS or not word.light]
    start = 0
    while start < min(len(one), len(two)) and one[start].root == two[start].root:
        start += 1
    end = 0
    while end < min(len(one), len(two)) - start and one[-1 - end].root == two[-1 - end].root:
        end += 1
    return one[start : len(one) - end], two[start : len(two) - end], one[start - 1] if start else None


@cached(20_000)
def statement(text: str) -> Statement:
    """A text in its parts."""
    plain = text.strip().rstrip(".!")
    for pattern, other in _REWRITES:
        plain = pattern.sub(other, plain)
    plain = _OF.sub(r"\2 \1", plain)
    tokens = _WORDS.findall(plain)
    foreign = bool(_CYRILLIC.search(plain)) or any(token.lower() in FOREIGN for token in tokens)
    denials = sum(token.lower() in DENIALS for token in tokens)
    words = [_word(token, first=not at, foreign=foreign) for at, token in enumerate(tokens) if token.lower() not in DENIALS]
    at = _verb_place(words)
    verb = "" if at is None else words[at].root
    past = not foreign and _is_past(words, at)
    return Statement(tuple(words[:at]), verb, () if at is None else tuple(words[at + 1 :]), denials % 2 == 1, past, foreign)


def _verb_place(words: Sequence[Word]) -> int | None:
    """The first form of "be", else the first verb that is known; a noun that is written like one is taken for it, and then less is told."""
    forms = [at for at, word in enumerate(words) if word.root == "be" and word.text != "be"]
    return next(iter(forms or [at for at, word in enumerate(words) if word.kind == "word" and word.root in STATES]), None)


def _is_past(words: Sequence[Word], at: int | None) -> bool:
    said = [words[at].text] if at is not None else [word.text for word in words]
    return any(text in PAST or (text.endswith("ed") and text not in TIMELESS) for text in said)


def _word(token: str, *, first: bool, foreign: bool) -> Word:
    lower = token.lower()
    if lower in NUMBERS:
        return Word(lower, NUMBERS[lower], "number")
    if any(character.isdigit() for character in token):
        return Word(lower, lower, "number")
    if lower in EXCLUSIVE and not (lower in ("may", "march") and token.islower()):
        return Word(lower, lower.removesuffix("s") if lower.endswith("days") else lower, EXCLUSIVE[lower])
    if token[:1].isupper() and not first and not foreign and lower not in LIGHT and lower != "i":
        return Word(lower, lower, "name")
    return Word(lower, _root(lower), "word")


@cached(20_000)
def _root(word: str) -> str:
    """What stands for a word in all its forms and synonyms."""
    return VERBS.get(word) or SYNONYMS.get(word) or _BY_STEM.get(_stem(word)) or _stem(word)


@cached(20_000)
def _stem(word: str) -> str:
    if _CYRILLIC.search(word):
        return stem(word)
    from snowballstemmer.english_stemmer import EnglishStemmer

    found: str = EnglishStemmer().stemWord(word)
    return found or word


#: By its stem what stands for a word: those of the tables.
_BY_STEM = {_stem(word): word for word in (*STATES, *ATTRIBUTES, *SEVERAL, *LABELS, *(w for pair in OPPOSITES for w in pair))}
_BY_STEM |= {_stem(word): VERBS.get(first, first) for word, first in SYNONYMS.items()}
