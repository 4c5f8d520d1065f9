"""Where a question's words occur among a chat's items, in release and day together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shared.ranking.question import query_terms
from shared.text.words.stemming import COMMON_LETTERS, alike
from shared.text.words.word_forms import (
    COMPOUNDING,
    MOST_FORMS,
    ChatWords,
    compounds,
    languages_of_chat,
    languages_of_question,
    same_stem,
    split,
)
from shared.text.writing import is_one_character

if TYPE_CHECKING:
    from shared.ranking.scoring import Posting
    from shared.search.lexical import LexicalIndex
    from shared.search.merge import Merged

#: The shortest part of a word that is looked for within words, so many parts of one question, and words for each. Characters.
SHORTEST_PART, MOST_PARTS, MOST_HOLDING = 4, 8, 32
#: Words of one question whose other forms are looked for, the rarest; those of them with compounds; languages, the chat's first ones. Together
#: they bound the stems of a question, which take nearly all of its time.
MOST_STEMMED, MOST_COMPOUND, MOST_LANGUAGES = 24, 8, 2


class WordLookup:
    """`whole`: where the terms of a question stand, each with its `forms`, other forms of the word, or what a compound that stands nowhere is made
    of; `parts`: what another compound is made of, and where words stand that hold a term which stands nowhere.

    `postings` are those of the terms and forms themselves. `missing` terms are found in none of these ways. sqlite3.Error where the release
    cannot be read; `lexical` None leaves it out. `asked` are the words of the question, `tokenise` makes terms of its content words.
    """

    def __init__(
        self,
        lexical: LexicalIndex | None,
        merged: Merged,
        asked: Sequence[str],
        tokenise: Callable[[Sequence[str]], list[str]],
        *,
        other_forms: bool,
    ) -> None:
        self._lexical, self._merged, self._tokenise = lexical if merged.release else None, merged, tokenise
        self.terms = terms = tokenise(asked)
        self.forms: dict[str, list[str]] = {}
        self._compounds: dict[str, list[list[str]]] = {}
        self.postings = self.standing(terms)
        self._add_stems(asked, terms)
        if other_forms and len(self.postings) < len(terms):
            self._add_forms(terms)
        self.whole = [posting for term in terms for posting in self._joined([term, *self.forms.get(term, ())])]
        self.parts: list[Posting] = []
        for term, parts in self._compounds.items():
            self._add_parts(term, parts)
        held = [term for term in terms if self._is_missing(term)]
        within = self._within(held)
        self.parts += within
        self.missing = len(held) - len(within)

    def standing(self, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these very terms stand, those that do."""
        merged, lexical = self._merged, self._lexical
        of_day = merged.day.postings(terms) if merged.day else {}
        return merged.postings(lexical.postings(merged.release, terms) if lexical and merged.release else {}, of_day)

    def _is_missing(self, term: str) -> bool:
        return not any(one in self.postings for one in (term, *self.forms.get(term, ())))

    def _joined(self, terms: Sequence[str]) -> list[Posting]:
        """As of one term; none if they stand nowhere."""
        from shared.ranking.scoring import joined

        found = [self.postings[term] for term in dict.fromkeys(terms) if term in self.postings]
        return [joined(found)] if len(found) > 1 else found

    def _add_stems(self, asked: Sequence[str], terms: Sequence[str]) -> None:
        """Where the words of the chat stand that have the stem of one of these in the question's language, or are made of it."""
        vocabulary = self._vocabulary()
        shown = frozenset().union(*(words.shown for words in vocabulary))
        languages = languages_of_question(asked, languages_of_chat(shown))[:MOST_LANGUAGES] if vocabulary else []
        if not languages:
            return
        for place, (word, term) in enumerate(self._rarest(asked, terms)):
            self._add_stem(vocabulary, word, term, languages, compounding=place < MOST_COMPOUND)
        every = {*terms, *(form for forms in self.forms.values() for form in forms)}
        every.update(form for parts in self._compounds.values() for part in parts for form in part)
        if len(every) > len(terms):
            self.postings = self.standing(sorted(every))

    def _rarest(self, asked: Sequence[str], terms: Sequence[str]) -> list[tuple[str, str]]:
        """The words of the question that are one term each, with it: those that stand nowhere first, then the rarest, of these the longest."""
        wanted, found = set(terms), list[tuple[str, str]]()
        for word in query_terms(asked):
            own = self._tokenise([word])
            if len(own) == 1 and own[0] in wanted and word.isalpha():
                found.append((word, own[0]))
        often = {term: len(ordinals) for term, (ordinals, _) in self.postings.items()}
        return sorted(found, key=lambda one: (often.get(one[1], 0), -len(one[0])))[:MOST_STEMMED]

    def _add_stem(
        self, vocabulary: Sequence[ChatWords], word: str, term: str, languages: Sequence[str], *, compounding: bool
    ) -> None:
        found = set[str]()
        for language in languages:
            found |= same_stem(vocabulary, word, language)
            if compounding and language in COMPOUNDING:
                found |= compounds(vocabulary, word, language)
                if parts := split(vocabulary, word, language):
                    self._compounds[term] = [self._terms_of(part) for part in parts]
        self.forms[term] = [one for one in self._terms_of(found) if one != term]

    def _terms_of(self, words: set[str]) -> list[str]:
        shortest = sorted(words, key=lambda word: (len(word), word))[:MOST_FORMS]
        return list(dict.fromkeys(term for word in shortest for term in self._tokenise([word])))

    def _vocabulary(self) -> list[ChatWords]:
        merged, lexical = self._merged, self._lexical
        told = lexical.words(merged.release) if lexical and merged.release else []
        today = merged.day.words if merged.day else None
        return [*told, today] if today else told

    def _add_parts(self, term: str, parts: Sequence[Sequence[str]]) -> None:
        """A compound that stands nowhere is asked for by its parts, as words; of another one they are its parts."""
        found = [posting for part in parts for posting in self._joined(part)]
        if not self._is_missing(term):
            self.parts += found
            return
        self.whole += found
        self.forms[term] = [*self.forms.get(term, ()), *(form for part in parts for form in part)]

    def _add_forms(self, terms: Sequence[str]) -> None:
        """Where no stem is known, a word in another form is met by its beginning."""
        merged, lexical, forms = self._merged, self._lexical, set[str]()
        for term in terms:
            if len(term) < COMMON_LETTERS or not self._is_missing(term):
                continue
            near = merged.day.beginning(term[:COMMON_LETTERS]) if merged.day else set[str]()
            if lexical and merged.release:
                near |= lexical.beginning(merged.release, term[:COMMON_LETTERS])
            self.forms[term] = [one for one in sorted(near) if alike(term, one)]
            forms.update(self.forms[term])
        if forms:
            self.postings = self.standing(sorted({*forms, *terms, *self.postings}))

    def _within(self, missing: Sequence[str]) -> list[Posting]:
        """For each of these terms, which stand nowhere, where words stand that hold it: "aillan" is in Maillant. The shortest words, since they
        hold little else."""
        from shared.ranking.scoring import joined

        parts = [term for term in missing if len(term) >= SHORTEST_PART or is_one_character(term)][:MOST_PARTS]
        if not parts:
            return []
        merged = self._merged
        terms = set(merged.day.containing(parts) if merged.day else ())
        if self._lexical and merged.release:
            terms.update(self._lexical.containing(merged.release, parts))
        holding = {part: sorted((term for term in terms if part in term), key=lambda t: (len(t), t)) for part in parts}
        wanted = sorted({term for some in holding.values() for term in some[:MOST_HOLDING]})
        if not wanted:
            return []
        found = self.standing(wanted)
        groups = ([found[term] for term in some[:MOST_HOLDING] if term in found] for some in holding.values())
        return [joined(postings) for postings in groups if postings]
