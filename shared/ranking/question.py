"""What a question asks for, and the weights of the ranking: pure functions over words. The arithmetic over a chat's items is scoring.py.

Sentence words, pronouns and what tells a time are known of English, Russian and the languages of function_words.py; in another language no word
is dropped, and the rest works as it is.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from shared.text.caches import cached
from shared.text.words.function_words import (
    ADVICE,
    NEVER_SEARCHED,
    OTHER_TIMES,
    TIME,
    UNSPACED_LANGUAGES,
    UNSPACED_TIME,
    WHEN,
    is_idle_pair,
    language_of,
    of_persons,
    plain,
    sentence_words,
)
from shared.text.writing import SIGNS, is_unspaced, spaced
from shared.turns.speakers import Speaker, is_named, same_person

#: Terms of one query: the first ones; a pasted page is no question.
MAX_TERMS = 64

#: Punctuation as blanks.
_BLANKS = str.maketrans(dict.fromkeys(string.punctuation, " "))
#: With the marks that may stand on a letter, as FTS5 takes them: a stress mark divides no word, nor does a vowel sign of Thai.
_WORD = re.compile(rf"[\w\u0300-\u036f{SIGNS}]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class Weights:
    """The ranking's parameters, for talk between people; `ASSISTED` has what differs for talk with an assistant. The first six weigh signals
    of 0 to 1 over all items of the chat; the rest is added to that.

    Fitted on the development halves of LoCoMo and REALTALK together (between people), and of BEAM (with an assistant). docs/measurements.md has
    the results.
    """

    #: BM25 of the item with its neighbours: words carry short chats.
    lexical: float = 0.50
    #: BM25 of the item alone: on REALTALK, where one side says several things in a row, 2 points of recall@10.
    own_words: float = 0.10
    #: Cosine of the item: meaning carries long answers.
    vector: float = 0.25
    #: Added to it where words tell nothing.
    vector_alone: float = 0.75
    #: The share of the question's words in one item up to which words tell nothing, and from which they count in full.
    unheard: float = 0.20
    heard: float = 0.45
    #: Cosine of the item with its neighbours: what a short reply is about stands beside it.
    context_vector: float = 0.15
    #: The best item of the session, by its own words and cosine.
    session: float = 0.05
    #: BM25 of the best of an item's notes (WRITES=notes), alone: as part of the item's words they give a point of recall@10 less.
    notes: float = 0.20
    #: The question names one speaker, or says "I" or "you", and this is theirs.
    speaker: float = 0.35
    #: Taken off what an assistant said: of the evidence with a person and an assistant nine in ten pieces are the person's.
    assistant: float = 0.0
    #: Times ln(1 + characters): "Wow, great!" says nothing. Up to `length_cap`, else long answers bury short messages
    #: (uncapped, 4.5 points of all@1000t less [1.5, 7.4] than plain fusion where unrelated long answers stand between).
    length: float = 0.10
    length_cap: float = 200.0
    #: Taken off: who asks a person does not tell. Without it 0.9 points of recall@10 fewer [0.0, 2.2].
    asks: float = 0.08
    #: The item before it in the session asks: this one may tell.
    answers: float = 0.08
    #: The question asks for advice, and a person says here what he prefers: on BEAM 2.1 points of recall@10 [0, 6.7], elsewhere none.
    prefers: float = 0.10
    #: The question is "when" or "how long", and the item tells a time: MRR .635 to .644.
    when: float = 0.15
    #: The question names a time ("last week", "in May") and the item was said then (shared/text/dates/named_times.py).
    said_then: float = 0.10
    #: The same for a time counted from the day of asking ("yesterday", "two weeks ago"): that is when it was said, so it outweighs the words.
    #: LoCoMo asks hardly so (no change there); .10 left yesterday's turns behind those of other days that share one word of the question.
    said_when_asked: float = 0.75
    #: BM25's saturation and length normalisation; b is higher than usual since neighbours make all lengths alike, and `own_b` is that without them.
    k1: float = 0.9
    b: float = 0.8
    own_b: float = 0.4
    #: A neighbour counts exp(-characters between the centres / this). 200 and 400 differ by half a point.
    reach_characters: float = 300.0
    #: And at most so many items each way: beyond, the weight is under .02 even among short ones.
    reach_items: int = 7
    #: A longer pause than this begins another session, and neighbours are of the same one. As SESSION_TTL.
    session_gap_seconds: float = 4 * 3600.0

    def towards(self, other: Weights, share: float) -> Weights:
        """These weights with a share (0 to 1) of the others'. What bounds neighbours and sessions stays: it is the chat's, not the question's."""
        mixed = {name: (1 - share) * getattr(self, name) + share * getattr(other, name) for name in BLENDED}
        return replace(self, **mixed)


#: The weights that differ from one kind of talk to the other.
BLENDED = ("lexical", "own_words", "vector", "context_vector", "speaker", "assistant", "length", "asks", "answers")
WEIGHTS = Weights()
#: Talk with an assistant that answers at length: neighbours of a short message are long answers, and a message that asks tells as well.
ASSISTED = Weights(
    lexical=0.0, own_words=0.45, vector=0.45, context_vector=0.0, speaker=0.25, assistant=0.35, length=0.08, asks=0.0, answers=0.05
)  # fmt: skip


def query_words(question: str) -> list[str]:
    """The words of a question, in lower case (not casefolded: ß shows German); what is written without blanks as pairs of characters."""
    lower = question.lower()
    return _ASCII_WORD.findall(lower) if lower.isascii() else _WORD.findall(spaced(lower))


_WHEN = [frozenset(query_words(words)) for words in WHEN]
#: It asks what was advised, not for advice.
_TOLD = frozenset({"did", "when"})


def query_terms(words: Iterable[str]) -> list[str]:
    """Distinct content words, folded; all words if the question has none else."""
    folded = list(dict.fromkeys(word.lower() for word in words))
    return content_words(folded)[:MAX_TERMS] or folded[:MAX_TERMS]


def content_words(words: Sequence[str], language: str | None = None) -> list[str]:
    """Those that do not only form the sentence, in the language that they show, if it is not given."""
    language = language or language_of(words)
    idle = sentence_words(language)
    left = [word for word in words if word not in NEVER_SEARCHED and not (idle and plain(word) in idle)]
    return [word for word in left if not is_idle_pair(word, language)] if language in UNSPACED_LANGUAGES else left


def asks_when(words: Sequence[str]) -> bool:
    """Whether the answer is a time: "when …", "how long …", "когда …", "wie lange …"."""
    return any(together.issubset(words) for together in _WHEN)


def asks_for_advice(words: Sequence[str]) -> bool:
    """Whether a question, given by its words in order, asks what to do, to take or how to go about it.

    "What would you suggest?" is answered well by who knows "I prefer print editions", which has few of the question's words.
    """
    lowered = [word.lower() for word in words]
    return ADVICE.search(" ".join(lowered)) is not None and _TOLD.isdisjoint(lowered)


def tells_time(text: str) -> bool:
    """Whether a text names a time."""
    if TIME.search(text):
        return True
    if text.isascii():
        return not OTHER_TIMES.isdisjoint(text.lower().translate(_BLANKS).split())
    words = map(plain, _WORD.findall(text.lower()))
    return not OTHER_TIMES.isdisjoint(words) or UNSPACED_TIME.search(text) is not None


def asks(text: str) -> bool:
    """Whether a text ends as a question, also with the mark of Chinese and Japanese, or of Arabic."""
    return text.rstrip().endswith(("?", "？", "؟"))


def meant_speakers(words: Sequence[str], speakers: Sequence[Speaker], asker: Speaker | None = None) -> list[int]:
    """Whose words the question is about: indexes into `speakers`.

    One speaker's name among the words means that speaker, two mean nobody. "I" means `asker`, or every user where none has a name; "you" means
    the assistant; both together mean nobody.
    """
    asked = set(words)
    named = {name.lower() for role, name, _ in speakers if is_named(role, name)}
    meant = [name for name in named if _names(name, asked)]
    if meant:
        return [at for at, (_, name, _) in enumerate(speakers) if name.lower() == meant[0]] if len(meant) == 1 else []
    of_asker, of_asked = of_persons(asked, language_of(words))
    if of_asker == of_asked:
        return []
    if of_asked:
        return [at for at, (role, name, _) in enumerate(speakers) if role != "user" and not is_named(role, name)]
    if not named:
        return [at for at, (role, _, _) in enumerate(speakers) if role == "user"]
    return [at for at, speaker in enumerate(speakers) if asker is not None and same_person(speaker, asker)]


def _names(name: str, words: set[str]) -> bool:
    """Whether a name in lower case is among these words; one that is written without blanks is its pairs of characters."""
    return name in words or (is_unspaced(name) and words.issuperset(query_words(name)))


#: Share of common words above which one text repeats another, and the fewest words for which less than all will do.
SAME_SHARE, FEWEST_WORDS = 0.95, 20
#: Texts whose words are kept, at most some 1,000 characters each.
KEPT_TEXTS = 16_384


def same_words(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two texts of many words say nearly the same. A number that differs is news, however long the rest."""
    least = SAME_SHARE * max(len(one), len(other))
    if min(len(one), len(other)) < max(least, FEWEST_WORDS) or len(one & other) < SAME_SHARE * len(one | other):
        return False
    return not any(character.isdigit() for word in one ^ other for character in word)


def groups(texts: Sequence[tuple[Hashable, str]]) -> list[list[int]]:
    """Places of texts that say the same, in the order of the first of each; texts are (whose, what), and two people never say the same.

    Of two sets with a share t of common words one's first n - ceil(t n) + 1 words, in any order that both follow, hold one of the other's
    (prefix filter: Chaudhuri et al., ICDE 2006), so that only such pairs are compared.
    """
    found: list[list[int]] = []
    equal: dict[Hashable, list[int]] = {}
    long: dict[tuple[Hashable, str], list[tuple[str, list[int]]]] = {}
    for place, (whose, text) in enumerate(texts):
        normal, rarest = _words_of(text)
        group = equal.setdefault((whose, normal), [])
        if not group and rarest:
            first = [(whose, word) for word in rarest]
            near = (said for key in first for other, said in long.get(key, ()) if _same_texts(normal, other))
            group = next(near, group)
            if not group:
                for key in first:
                    long.setdefault(key, []).append((normal, group))
        if not group:
            found.append(group)
        group.append(place)
    return found


def _same_texts(one: str, other: str) -> bool:
    return same_words(frozenset(one.split(" ")), frozenset(other.split(" ")))


@cached(KEPT_TEXTS)
def spoken(text: str) -> str:
    """The words of a text with a blank between. Kept, since a chat's best items come again from question to question."""
    return " ".join(query_words(text))


@cached(KEPT_TEXTS)
def _words_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The words as they stand, and of a text of many words enough to meet any that says nearly the same: the longest, which few texts share."""
    normal = spoken(text)
    words = normal.split(" ")
    if len(words) < FEWEST_WORDS:
        return normal or text.strip(), ()
    ordered = sorted(sorted(set(words)), key=len, reverse=True)
    return normal, tuple(ordered[: len(ordered) - math.ceil(SAME_SHARE * len(ordered)) + 1])
