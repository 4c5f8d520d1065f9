"""Where a question's words occur among a chat's items, in release and day together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.text.stemming import COMMON_LETTERS, alike

if TYPE_CHECKING:
    from shared.ranking.scoring import Posting
    from shared.search.lexical import LexicalIndex
    from shared.search.merge import Merged

#: The shortest part of a word that is looked for within words, so many parts of one question, and words for each. Characters.
SHORTEST_PART, MOST_PARTS, MOST_HOLDING = 4, 8, 32


class WordLookup:
    """`postings`: of the terms themselves, and of `forms`, other forms of a term that stands nowhere; `parts`: of words that hold such a term.

    `missing` terms are found in none of these ways. sqlite3.Error where the release cannot be read; `lexical` None leaves it out.
    """

    def __init__(
        self, lexical: LexicalIndex | None, merged: Merged, terms: Sequence[str], *, other_forms: bool
    ) -> None:
        self._lexical, self._merged = lexical if merged.release else None, merged
        self.forms: dict[str, list[str]] = {}
        self.postings = self.standing(terms)
        if other_forms and len(self.postings) < len(terms):
            self._add_forms(terms)
        held = [term for term in terms if self._is_missing(term)]
        self.parts = self._within(held)
        self.missing = len(held) - len(self.parts)

    def standing(self, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these very terms stand, those that do."""
        merged, lexical = self._merged, self._lexical
        of_day = merged.day.postings(terms) if merged.day else {}
        return merged.postings(lexical.postings(merged.release, terms) if lexical and merged.release else {}, of_day)

    def _is_missing(self, term: str) -> bool:
        return not any(one in self.postings for one in (term, *self.forms.get(term, ())))

    def _add_forms(self, terms: Sequence[str]) -> None:
        """Where the language is not stemmed, a word in another form is met by its beginning."""
        merged, lexical, forms = self._merged, self._lexical, set[str]()
        for term in terms:
            if term in self.postings or len(term) < COMMON_LETTERS:
                continue
            near = merged.day.beginning(term[:COMMON_LETTERS]) if merged.day else set[str]()
            if lexical and merged.release:
                near |= lexical.beginning(merged.release, term[:COMMON_LETTERS])
            self.forms[term] = [one for one in sorted(near) if alike(term, one)]
            forms.update(self.forms[term])
        if forms:
            self.postings = self.standing(sorted(forms.union(terms)))

    def _within(self, missing: Sequence[str]) -> list[Posting]:
        """For each of these terms, which stand nowhere, where words stand that hold it: "aillan" is in Maillant. The shortest words, since they
        hold little else."""
        from shared.ranking.scoring import joined

        parts = [term for term in missing if len(term) >= SHORTEST_PART][:MOST_PARTS]
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
