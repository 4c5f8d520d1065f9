"""How a new fact relates to a known one: the same, a correction, or a different fact. Pure functions of two texts; in doubt, a different fact.

Similar vectors decide nothing: the shipped model puts "married" and "divorced" (.73) nearer to each other than "called" and "named" (.56). So the
words decide. Both texts are reduced to content words (wording.py), with negations counted, and with names, numbers and sets of words that exclude
each other ("Monday", "married") marked as such. Then

    the same       the same content words, in a compatible order, and as many negations
    a correction   the same but for a negation; or the same subject and verb, a subject that has one value at a time, and another value of
                   the same kind: a number for a number, a name for a name, a word for its opposite
    different      everything else: both facts are stored
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum

from dispatcher.memory.typed.comparing.statements import Statement, Word, clauses, root, statement
from dispatcher.memory.typed.comparing.wording import (
    ATTRIBUTE_STARTS,
    ATTRIBUTES,
    EITHER,
    EXCLUSIVE,
    LABELS,
    LEADS,
    ONE_AT_A_TIME,
    OPPOSITES,
    SEVERAL,
    SOMEWHERE,
    STATES,
    TIMES,
    WHERE,
)

#: The cosine from which two texts may be paraphrases, and how many words of each may be missing in the other.
PARAPHRASED, MOST_LEFT = 0.8, 2
#: The most pairs of clauses that are compared.
MOST_CLAUSES = 36


class Relation(StrEnum):
    """How a new text relates to a known one."""

    SAME = "same"
    CORRECTS = "corrects"
    DIFFERENT = "different"


def relation(known: str, new: str, cosine: float | None = None, *, preference: bool = False) -> Relation:
    """How `new` relates to `known`; `cosine` is that of their vectors, if there are any. `preference`: both are preferences.

    A text of several clauses is corrected only if each of them is: otherwise the other clauses would be lost.
    """
    found = _related(statement(known), statement(new), cosine, preference=preference)
    if found is Relation.SAME or (found is Relation.CORRECTS and len(clauses(known)) == 1):
        return found
    old, fresh = ([statement(part) for part in clauses(text)] for text in (known, new))
    if len(old) * len(fresh) < 2 or len(old) * len(fresh) > MOST_CLAUSES:
        return Relation.DIFFERENT
    each = [{_related(one, two, None, preference=preference) for two in fresh} for one in old]
    corrected = all(Relation.CORRECTS in some for some in each)
    return Relation.CORRECTS if corrected else Relation.DIFFERENT


def _related(one: Statement, two: Statement, cosine: float | None, *, preference: bool) -> Relation:
    if one.bag == two.bag and one.bag:
        return _of_same_words(one, two)
    if one.foreign != two.foreign or one.past or two.past:
        return Relation.DIFFERENT
    if one.denied != two.denied:
        return Relation.CORRECTS if _denied(*((one, two) if one.denied else (two, one))) else Relation.DIFFERENT
    if not one.denied and _corrected(one, two, preference=preference):
        return Relation.CORRECTS
    if _same_work(one, two) or (
        cosine is not None and cosine >= PARAPHRASED and not one.foreign and _paraphrased(one, two)
    ):
        return Relation.SAME
    return Relation.DIFFERENT


def _denied(denial: Statement, other: Statement) -> bool:
    """Whether a denial excludes the other text: "does not eat meat" excludes meat on Sundays, "neither meat nor fish" excludes meat."""
    if not denial.verb or denial.verb != other.verb or denial.about != other.about:
        return False
    no, yes = (frozenset(word.root for word in one.value if not word.light) for one in (denial, other))
    either = any(word.text in EITHER for word in denial.value)
    return bool(no) and (no <= yes or (either and bool(yes) and yes <= no))


def _same_work(one: Statement, two: Statement) -> bool:
    """Whether both state a profession: "is a nurse", "works as a nurse"; in Russian the first has no verb."""
    verbs, left = {one.verb, two.verb}, one.bag ^ two.bag
    return verbs in ({"be", "work"}, {"", "work"}) and left == {"work"} and len(one.bag | two.bag) > 1


def _paraphrased(one: Statement, two: Statement) -> bool:
    """Whether two texts with similar vectors may say the same: they differ only in a few plain words in another construction.

    Two texts that differ in a word at the same place are usually parallel statements about two things.
    """
    left = [word for word in one.content if word.root not in two.bag]
    right = [word for word in two.content if word.root not in one.bag]
    if not left or not right or len({w.root for w in left}) > MOST_LEFT or len({w.root for w in right}) > MOST_LEFT:
        return False
    if any(word.kind != "word" or word.text in LEADS or word.root in SEVERAL for word in (*left, *right)):
        return False
    if any(_opposed(a.root, b.root) for a in left for b in right) or len(one.bag & two.bag) < max(
        len(left), len(right)
    ):
        return False
    first, second = (_shape(each, one.bag & two.bag) for each in (one, two))
    return first != second and _keeps_roles(one, two)


def _shape(stated: Statement, shared: Collection[str]) -> list[str]:
    """Its words, with one gap for each piece that the other text does not have."""
    words = [word.root if word.root in shared else "" for word in stated.content]
    return [word for at, word in enumerate(words) if word or not at or words[at - 1]]


def _of_same_words(one: Statement, two: Statement) -> Relation:
    if one.denied != two.denied:
        return Relation.CORRECTS
    if one.past != two.past:
        return Relation.DIFFERENT
    if {one.verb, two.verb} == {"be", "have"} and {w.text for w in one.content} == {w.text for w in two.content}:
        return Relation.DIFFERENT  # being a mother is not having one
    first, second = [word.root for word in one.content], [word.root for word in two.content]
    if first == second or _turned(one, two) or (_one_block_moved(first, second) and _keeps_roles(one, two)):
        return Relation.SAME
    compares = all(re.search(r"\b(?:over|than|rather)\b", " ".join(w.text for w in s.value)) for s in (one, two))
    return Relation.CORRECTS if compares else Relation.DIFFERENT


def _turned(one: Statement, two: Statement) -> bool:
    """Whether they are "X is Y" and "Y is X"."""
    return one.verb == two.verb == "be" and one.about == Counter(w.root for w in two.value if not w.light)


def _one_block_moved(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether swapping two adjacent pieces of one gives the other."""
    start = next((at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b), 0)
    end = len(first) - next((at for at, (a, b) in enumerate(zip(first[::-1], second[::-1], strict=True)) if a != b), 0)
    one, two = list(first[start:end]), list(second[start:end])
    return any(one[cut:] + one[:cut] == two for cut in range(1, len(one)))


def _keeps_roles(one: Statement, two: Statement) -> bool:
    """Whether several names, numbers or persons are in the same order: "Tom owes Anna" is not "Anna owes Tom"."""
    names = {word.root for each in (one, two) for word in each.content if word.kind == "name"}

    def order(stated: Statement, kind: str) -> list[str]:
        if kind == "person":
            return [
                word.root
                for word in stated.content
                if word.root in SEVERAL or word.root in ("mother", "father", "boss", "wife", "husband")
            ]
        return [word.root for word in stated.content if word.kind == kind or (kind == "name" and word.root in names)]

    return all(order(one, kind) == order(two, kind) for kind in ("name", "number", "person"))


def _corrected(one: Statement, two: Statement, *, preference: bool) -> bool:
    if preference and _only_opposed(one.content, two.content):
        return True
    if one.about != two.about or not one.verb or not two.verb:
        return False
    if one.verb != two.verb:
        same = Counter(w.root for w in one.value if not w.light) == Counter(w.root for w in two.value if not w.light)
        return same and bool(one.value) and _opposed(one.verb, two.verb)
    if one.verb not in STATES:
        return False
    left, right, before = _slot(one.value, two.value)
    if not left or not right or any(word.root == "be" for word in (*left, *right)):
        return False  # one says more than the other
    return _replaces(one, left, right, before)


def _replaces(stated: Statement, left: Sequence[Word], right: Sequence[Word], before: Word | None) -> bool:
    """Whether, for the same subject and verb, one value excludes the other; `before` is the word before both."""
    kinds, others = ([word.kind for word in some if word.text not in LEADS] for some in (left, right))
    alike = kinds == others
    kind = kinds[0] if alike and len(set(kinds)) == 1 else ""
    timed = bool(kinds) and alike and set(kinds) <= {"number", "weekday", "month"}
    one_value = stated.verb in ONE_AT_A_TIME
    if stated.verb == "be" and _has_one_value(stated):
        return _lead(left) == _lead(right)
    if one_value:
        where, other = (
            _lead(left) or _lead([before] if before else []),
            _lead(right) or _lead([before] if before else []),
        )
        if where != other or where not in WHERE.get(stated.verb, SOMEWHERE):
            return False
        if stated.foreign:
            return len(left) == len(right) == 1
        phrases = sum(word.text in LEADS for word in (*left[1:], *right[1:]))
        return (timed and (stated.verb in TIMES or set(kinds) == {"number"})) or (
            not phrases and not {"weekday", "month"} & {*kinds, *others} and ("name" in kinds) == ("name" in others)
        )
    if timed and set(kinds) == {"number"}:
        return not (before and before.root in LABELS)
    if stated.verb != "be":
        return False
    return _excludes(stated, left, right, kind, before, timed=timed)


def _excludes(
    stated: Statement, left: Sequence[Word], right: Sequence[Word], kind: str, before: Word | None, *, timed: bool
) -> bool:
    """`_replaces` for "X is Y"."""
    if timed or (kind in set(EXCLUSIVE.values()) and kind != "language" and len(left) == 1):
        return True
    if len(left) == len(right) == 1 and _opposed(left[0].root, right[0].root):
        return True
    if not stated.about or stated.foreign:  # the user can be many things
        return False
    head = [word for word in stated.subject if not word.light][-1]
    if kind == "name":
        return head.kind != "name" and SEVERAL.isdisjoint(stated.about)
    place = (before and before.text in ("in", "on", "at")) or _lead(left) in ("in", "on")
    return (
        bool(place)
        and len(left) == len(right)
        and kind == "word"
        and head.kind != "name"
        and head.root not in SEVERAL
        and _lead(left) == _lead(right)
    )


def _has_one_value(stated: Statement) -> bool:
    roots = [word.root for word in stated.subject if not word.light]
    if not roots or (SEVERAL & set(roots) and not any(word.kind == "name" for word in stated.subject)):
        return False  # "the user's son is called Max" may be the other son
    named = roots[-1] in ATTRIBUTES or "favourite" in roots or any(root.startswith(ATTRIBUTE_STARTS) for root in roots)
    return named or (stated.foreign and any(root in ATTRIBUTES for root in roots))


def _lead(words: Sequence[Word]) -> str:
    return LEADS.get(words[0].text, "") if words else ""


def _only_opposed(one: Sequence[Word], two: Sequence[Word]) -> bool:
    """Whether two texts of equal length differ in one word, and these words are opposites."""
    if len(one) != len(two):
        return False
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a.root != b.root]
    if len(pairs) != 1:
        return False
    ((a, b),) = pairs
    return (_opposed(a.root, b.root) and a.root not in ("left", "right")) or (
        a.kind == b.kind == "language" and "reply" in {w.root for w in one}
    )


def _opposed(one: str, two: str) -> bool:
    return frozenset((one, two)) in _OPPOSED


def _slot(one: Sequence[Word], two: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word], Word | None]:
    """Both without their common beginning and end, and the last word of the common beginning."""
    one = [word for word in one if word.text in LEADS or not word.light]
    two = [word for word in two if word.text in LEADS or not word.light]
    start = 0
    while start < min(len(one), len(two)) and one[start].root == two[start].root:
        start += 1
    end = 0
    while end < min(len(one), len(two)) - start and one[-1 - end].root == two[-1 - end].root:
        end += 1
    return one[start : len(one) - end], two[start : len(two) - end], one[start - 1] if start else None


_OPPOSED = frozenset(frozenset(map(root, pair)) for pair in OPPOSITES)
