"""Other forms of a word among the words of a chat, by Snowball's stemmer of a language in Latin letters; parts of compounds. Pure functions.

The index keeps the English form of each word, whatever its language. A question in German meets "Häuser" by "Haus" because both have one German
stem, and "Termin beim Zahnarzt" by "Zahnarzttermin" because its parts are words of this chat: the chat's own vocabulary is the dictionary. Which
languages a chat has is told by its sentence words; a chat in English has none of these, and nothing is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from heapq import nsmallest
from itertools import islice

from shared.text.caches import cached
from shared.text.words.stemming import KEPT_WORDS, stem_in
from shared.text.writing import folded

#: The stemmer of each language (ISO 639-1), as snowballstemmer names it.
STEMMERS: Mapping[str, str] = {
    "cs": "czech", "da": "danish", "de": "german", "es": "spanish", "fi": "finnish", "fr": "french", "hu": "hungarian", "id": "indonesian",
    "it": "italian", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
#: Languages that write compounds as one word.
COMPOUNDING = frozenset("da de fi hu nl no sv".split())
#: What joins the parts of a compound, the longest first.
_JOINTS = ("ens", "en", "es", "er", "s", "n", "e")
#: Shortest part of a compound, its stem; shortest beginning of a word that ends with another.
SHORTEST_PART, SHORTEST_REST = 4, 3
#: Letters by which a form is longer than its word, at most; so many words of a chat are looked at for one, the shortest; and it is met by so many.
MOST_LONGER, MOST_NEAR, MOST_FORMS = 7, 16, 16
#: So many words are looked at for a part of a compound: there are many parts.
MOST_NEAR_PART = 4
#: Words that hold a part are read up to so many, since a stem takes some 50 µs; lookups of a beginning or a part that a chat's words keep.
MOST_HELD, KEPT_LOOKUPS = 512, 1024

#: Frequent sentence words of each language, without accents, few of them words of another.
SENTENCE_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and you to of my that was it for is have with this are what when where who how did does not but from your we they",
        "cs": "se na je to ze jsem ale jak kdy kde co byl byla jsme pro neni uz jeste moje muj tak kdo jsou nebo aby mam",
        "da": "og det jeg ikke er til med har af hvor hvad hvornar hvem min mit mine fra blev skal som vores den der vi",
        "de": "ich und der nicht ist das mit auf ein auch fur wir die den wann wo wer wie mein meine haben hat von zu im eine",
        "es": "el los una por con muy pero las del mi donde cuando quien como que esta hay fue para tengo unos mis al nos",
        "fi": "ja on ei etta se oli mutta kun niin mina myos vain missa milloin mika kuka miten minun olen ovat joka hanen meidan taman",
        "fr": "le les je est une et pour dans pas sur que avec ou quand qui comment mon ma mes des du au il elle nous ai",
        "hu": "az es nem hogy egy van meg volt mar csak hol mikor ki mit milyen vagy mert ha nekem ez ezt azt voltam mint",
        "id": "yang dan di saya tidak ini itu ke dengan untuk ada kapan siapa apa dari akan sudah juga pada kami kita mana bisa",
        "it": "il di che non per una sono mi gli della con ho dove quando chi come la un del nel mio mia alle ha abbiamo lo",
        "nl": "het een ik en niet van dat met voor zijn op naar waar wanneer wie hoe wat mijn heb heeft is de ook er maar we",
        "no": "og det jeg ikke er til med har av hvor hva nar hvem min mitt mine fra ble skal som var den der vi pa",
        "pl": "nie sie na ze to jest do jak mam gdzie kiedy kto co moj moja dla byl jego tak czy przez bardzo po juz",
        "pt": "os um uma nao com em do da meu foi onde quando quem como que minha para no na ele ela muito dos as",
        "ro": "si nu este cu pe un mai din sa am unde cand cine cum ce la mea meu pentru care sunt foarte avem dar",
        "sv": "och att det som pa ar jag inte for med har var nar vem hur vad min mitt mina av till den vi fran en",
        "tr": "bir ve bu icin cok ne ile var degil daha nerede zaman kim nasil hangi benim mi mu kac sonra gibi olan oldu ama",
    }.items()
}
#: Those words by which a chat has a language: at least so many, and at least this share of as many as of its first language.
LEAST_SHOWN, LEAST_SHARE = 3, 0.4

_SHOWING = frozenset().union(*SENTENCE_WORDS.values())
#: What no text in English alone holds, or hardly.
FOREIGN = _SHOWING - SENTENCE_WORDS["en"]
_WORD = re.compile(r"[a-z\u00df-\u024f\u1e00-\u1eff][a-z\u0300-\u036f\u00df-\u024f\u1e00-\u1eff]{1,39}")


@dataclass(frozen=True)
class ChatWords:
    """The words of a chat, or of a part of it. `lines`: a line each, with an empty one ahead and behind; a word that is not ASCII is preceded by
    its folded form and a tab. `shown`: its sentence words of any language.
    """

    lines: str
    shown: frozenset[str]

    def beginning(self, letters: str) -> list[str]:
        """The words, as they are written, whose folded form begins so; the lines are in order."""
        low, end = _place(self.lines, letters), _place(self.lines, letters + "\U0010ffff")
        found = self.lines[low + 1 : end].split("\n") if low < end else []
        return [line.rpartition("\t")[2] for line in found]

    def holding(self, part: str) -> Iterator[str]:
        """The words, as they are written, that hold this."""
        at = self.lines.find(part)
        while at >= 0:
            end = self.lines.index("\n", at)
            yield self.lines[self.lines.rindex("\n", 0, at) + 1 : end].rpartition("\t")[2]
            at = self.lines.find(part, end)

    # Functions of the lines alone, not of this object: it is freed with its last reference.
    @cached_property
    def shortest_beginning(self) -> Callable[[str], list[str]]:
        """The shortest `MOST_NEAR` words of `beginning`, kept for the beginnings asked last."""
        return lru_cache(KEPT_LOOKUPS)(partial(_shortest, self.lines, ChatWords.beginning))

    @cached_property
    def shortest_holding(self) -> Callable[[str], list[str]]:
        """The same for `holding`."""
        return lru_cache(KEPT_LOOKUPS)(partial(_shortest, self.lines, ChatWords.holding))

    @classmethod
    def of(cls, lines: str) -> ChatWords:
        places = ((word, _place(lines, word) + 1) for word in _SHOWING)
        return cls(lines, frozenset(word for word, at in places if lines.startswith((f"{word}\n", f"{word}\t"), at)))

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> ChatWords | None:
        """None for texts that show no language but English: an index does not keep their words."""
        pieces = {piece for text in texts for piece in text.lower().split()}
        plain = {word: word if word.isascii() else folded(word) for word in _WORD.findall(" ".join(pieces))}
        shown = _SHOWING.intersection(plain.values())
        if not languages_of_chat(shown, 1, LEAST_SHARE / 2):
            return None
        lines = sorted(word if word.isascii() else f"{form}\t{word}" for word, form in plain.items())
        return cls("\n".join(["", *lines, ""]), shown)


def _shortest(lines: str, look_up: Callable[[ChatWords, str], Iterable[str]], letters: str) -> list[str]:
    found = look_up(ChatWords(lines, frozenset()), letters)
    if not isinstance(found, list):
        found = islice(found, MOST_HELD)
    return nsmallest(MOST_NEAR, found, key=len)


def _place(lines: str, letters: str) -> int:
    """The line break ahead of the first line, in their order, that does not come before these letters."""
    low, high = 0, len(lines) - 1
    while low < high:
        middle = lines.rindex("\n", 0, (low + high) // 2 + 1)
        end = lines.index("\n", middle + 1)
        if lines[middle + 1 : end] < letters:
            low = end
        else:
            high = middle
    return low


def languages_of_chat(shown: Collection[str], least: int = LEAST_SHOWN, share: float = LEAST_SHARE) -> list[str]:
    """The languages of a chat beside English, by its sentence words; the one with most of them first."""
    counts = {language: len(marks.intersection(shown)) for language, marks in SENTENCE_WORDS.items()}
    enough = max(least, share * max(counts.values()))
    found = [language for language in STEMMERS if counts[language] >= enough]
    return sorted(found, key=lambda language: -counts[language])


def languages_of_question(words: Iterable[str], languages: Sequence[str]) -> list[str]:
    """Which of a chat's languages a question may be in: all of them if it has no sentence word; none if it has most of English."""
    asked = {folded(word) for word in words}
    counts = {language: len(SENTENCE_WORDS[language] & asked) for language in languages}
    most = max(counts.values(), default=0)
    if len(SENTENCE_WORDS["en"] & asked) > most:
        return []
    return [language for language, count in counts.items() if count == most]


@cached(KEPT_WORDS)
def stems(word: str, language: str) -> frozenset[str]:
    """The stems of a word in lower case, folded: as it is written, and as it is typed without accents."""
    name = STEMMERS[language]
    return frozenset({folded(stem_in(name, word)), folded(stem_in(name, folded(word)))})


def same_stem(vocabulary: Sequence[ChatWords], word: str, language: str) -> set[str]:
    """The words of the chat that have the stem of this one."""
    own = stems(word, language)
    return {one for one in _near(vocabulary, word, own) if not own.isdisjoint(stems(one, language))}


def _near(vocabulary: Sequence[ChatWords], word: str, own: frozenset[str]) -> list[str]:
    """The words that may have one of these stems, those of `word`: first the shortest that begin with it."""
    # The last letter of a stem may be another one in its forms.
    length = max(2, max(map(len, own)) - 1)
    spelled = {*own, folded(word), *(folded(one) for one in _spelled(word))}
    begins = [*sorted(own), *sorted({plain[:length] for plain in spelled} - own)]
    near = dict.fromkeys(one for begin in begins for words in vocabulary for one in words.shortest_beginning(begin))
    return [one for one in near if len(one) <= len(word) + MOST_LONGER][: 2 * MOST_NEAR]


def compounds(vocabulary: Sequence[ChatWords], word: str, language: str) -> set[str]:
    """The words of the chat that end with this one, and those that begin with it and go on with another word of the chat."""
    own = stems(word, language)
    parts = [stem for stem in own if len(stem) >= SHORTEST_PART]
    held = {(stem, one) for stem in parts for words in vocabulary for one in words.shortest_holding(stem)}
    return {one for stem, one in held if _is_part(vocabulary, (stem, own), folded(one), language)}


def _is_part(vocabulary: Sequence[ChatWords], part: tuple[str, frozenset[str]], whole: str, language: str) -> bool:
    """Whether a word ends with another, given as where it begins there and its stems, or begins with it and goes on with a word of the chat."""
    stem, own = part
    at = whole.rfind(stem)
    if at >= SHORTEST_REST and not own.isdisjoint(stems(whole[at:], language)):
        return True
    rest = whole.removeprefix(stem)
    return rest != whole and any(_is_word(vocabulary, one, language) for one in _without_joint(rest, str.removeprefix))


def split(vocabulary: Sequence[ChatWords], word: str, language: str) -> tuple[set[str], set[str]] | None:
    """The words of the chat that the two parts of a compound are, cut where the shorter part is longest; None if they are none."""
    cuts = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
    for cut in sorted(cuts, key=lambda cut: abs(2 * cut - len(word))):
        if not _is_word(vocabulary, word[cut:], language):
            continue
        for first in _without_joint(word[:cut], str.removesuffix):
            if _is_word(vocabulary, first, language):
                return same_stem(vocabulary, first, language), same_stem(vocabulary, word[cut:], language)
    return None


def _is_word(vocabulary: Sequence[ChatWords], part: str, language: str) -> bool:
    """Whether a part of a compound is a word of the chat. Most are none, and most of these are known by their beginning, without a stem."""
    begins = {folded(one)[: max(SHORTEST_PART - 1, len(one) // 3)] for one in (part, *_spelled(part))}
    if len(part) < SHORTEST_PART or not any(words.shortest_beginning(one) for words in vocabulary for one in begins):
        return False
    own = stems(part, language)
    return any(not own.isdisjoint(stems(one, language)) for one in _near(vocabulary, part, own)[:MOST_NEAR_PART])


def _without_joint(part: str, remove: Callable[[str, str], str]) -> Iterator[str]:
    yield part
    yield from (shorter for joint in _JOINTS if (shorter := remove(part, joint)) != part)


def _spelled(word: str) -> list[str]:
    """A word with ä, ö and ü as two letters, where a keyboard has none, and the other way round."""
    forms = (
        word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue"),
        word.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü"),
    )
    return [one for one in forms if one != word]
