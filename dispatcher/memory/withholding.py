"""What is hidden with a memory: in each of its source messages the parts that state it, and nothing else if these parts can be identified.

A tombstone names whole turns. So a message that also says other things is hidden as a whole, and its other parts are stored in the day store as a
separate turn, the rest (same speaker, same time; its id is derived from the message's, so that it can be forgotten with the message). It is found
like any turn of the day, until it is forgotten itself. If no part can be identified (the wording differs), the whole message stays hidden.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import content_roots, coverage, says_again, text_roots
from dispatcher.memory.typed.duplicates import details_of
from shared.errors import ReleaseRefused
from shared.turns.chunking import sentences
from shared.turns.records import ROLES, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.turns import Turns
    from shared.search.recall import OpenRelease

#: Share of a memory's words from which a part of one of its source messages states it.
STATED_WORDS = 0.5
#: Characters of a rest's prefix ("rest-", 24 hex digits, "-").
PREFIX_LENGTH = 30
_JOINT = re.compile(r"(\s*;\s*|,?\s+(?:and|but|while|und|aber|et|mais|и|а|но)\s+|,\s+)", re.IGNORECASE)
#: A piece of a sentence with fewer words belongs to the piece before it: "red and green".
CLAUSE_WORDS = 3


@dataclass(frozen=True)
class Hidden:
    """`turns`: ids of hidden turns; `rests`: their other parts; `renamed`: turn id → id of its rest, "" for none."""

    turns: tuple[str, ...]
    rests: tuple[Turn, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def sources_left(self, memory: Memory) -> str | None:
        """The source turns of another memory by their new ids, separated by spaces; None if none is left."""
        ids = [self.renamed.get(one, "" if one in self.turns else one) for one in (memory.source_turn or "").split()]
        return " ".join(dict.fromkeys(filter(None, ids))) or None


class TurnTexts:
    """Reads turns from the day store, else from the release; stores the rests of turns."""

    def __init__(self, turns: Turns, release: Callable[[], AbstractContextManager[OpenRelease | None]]) -> None:
        self._turns, self._release = turns, release

    def read(self, chat_id: str, turn_ids: Sequence[str]) -> dict[str, Turn]:
        """The known ones of these turns, by id; without those of a release that cannot be read, since a turn is hidden without its text, too."""
        found = {stored.turn.turn_id: stored.turn for stored in self._turns.named(chat_id, turn_ids)}
        missing = [one for one in turn_ids if one not in found]
        if missing:
            with self._release() as release, suppress(ReleaseRefused):
                found |= release.turns(chat_id, missing) if release else {}
        return found

    def keep(self, rests: Sequence[Turn], connection: Connection) -> None:
        from dispatcher.memory.store.turns import StoredTurn

        stored = [StoredTurn(turn) for turn in rests]
        if stored:
            self._turns.store(stored, connection=connection)


@dataclass
class _Hiding:
    """`whole`: ids of hidden turns; `rests`: their rests by turn id."""

    texts: Sequence[str]
    known: Mapping[str, Turn]
    tombstone_id: str
    whole: list[str] = field(default_factory=list)
    rests: dict[str, Turn] = field(default_factory=dict)

    def take(self, turn_id: str, *, strictly: bool = True) -> bool:
        """Hide a turn. Returns whether it has a rest."""
        self.whole.append(turn_id)
        rest = _rest(self.known.get(turn_id), self.texts, self.tombstone_id, strictly=strictly)
        if rest:
            self.rests[turn_id] = rest
        return rest is not None

    def says(self, turn_id: str) -> bool:
        """Whether a turn states the memory, or is unknown."""
        turn = self.known.get(turn_id)
        return turn is None or any(says(self.texts, part, strictly=True) for part in parts(turn.remembered))


def hidden_with(
    texts: Sequence[str],
    sources: Sequence[str],
    answers: Sequence[str],
    again: Sequence[str],
    asking: str | None,
    known: Mapping[str, Turn],
    tombstone_id: str,
) -> Hidden:
    """What is hidden with a memory whose wordings are `texts`, from the exchanges `sources` (task ids), repeated by the turns `again`, when the
    exchange `asking` forgets it. `answers`: turns that answered the rest of an earlier message. `known`: turns by id."""
    hiding = _Hiding(texts, known, tombstone_id)
    asked = [f"{asking}:{role}" for role in ROLES] if asking else []
    for task in dict.fromkeys(sources):
        question, answer = (f"{task}:{role}" for role in ROLES)
        if task == asking or not hiding.take(question):
            hiding.whole += [question, answer]
        elif hiding.says(answer):
            hiding.take(answer)
    for answer in answers:
        if answer in known and hiding.says(answer):
            hiding.take(answer)
    hiding.whole += asked
    for turn_id in again:
        if turn_id not in hiding.whole:
            hiding.take(turn_id, strictly=False)
    return Hidden(tuple(dict.fromkeys(hiding.whole)), tuple(hiding.rests.values()), _renamed(hiding, sources))


def _renamed(hiding: _Hiding, sources: Sequence[str]) -> dict[str, str]:
    """Turn id → ids of its rest. An answer that stays visible keeps its own id, by which a later request finds it."""
    named = {turn_id: rest.turn_id for turn_id, rest in hiding.rests.items()}
    for task in sources:
        question, answer = (f"{task}:{role}" for role in ROLES)
        if question in named:
            answer_id = named.get(answer, "" if answer in hiding.whole else answer)
            named[question] = f"{named[question]} {answer_id}".strip()
    return named


def _rest(turn: Turn | None, texts: Sequence[str], tombstone_id: str, *, strictly: bool) -> Turn | None:
    """The parts of a turn that do not state a memory, as a turn; None if they cannot be identified, or there are none."""
    if turn is None:
        return None
    every = parts(turn.remembered)
    left = [part for part in every if not says(texts, part, strictly=strictly)]
    quoted = turn.origin.quote is not None and _says_part_of(texts, turn.origin.quote.text, strictly=strictly)
    if not left or (len(left) == len(every) and not quoted):
        return None
    task_id = f"{rest_prefix(turn.turn_id)}{_name(tombstone_id)}"
    return replace(
        turn, task_id=task_id, content=" ".join(left), session=None, extra=replace(turn.origin, quote=None).to_json()
    )


def _says_part_of(texts: Sequence[str], text: str, *, strictly: bool) -> bool:
    return any(says(texts, part, strictly=strictly) for part in parts(text))


def rest_prefix(turn_id: str) -> str:
    """The prefix of the task ids of a turn's rests, and of the rests of these: it finds them when the turn itself is forgotten."""
    return turn_id[:PREFIX_LENGTH] if turn_id.startswith("rest-") else f"rest-{_name(turn_id)}-"


def rests_of(turn_ids: Iterable[str], turns: Iterable[Turn]) -> list[Turn]:
    """Those of the turns that are rests of `turn_ids`."""
    wanted = {rest_prefix(turn_id) for turn_id in turn_ids}
    return [turn for turn in turns if turn.task_id.startswith("rest-") and turn.task_id[:PREFIX_LENGTH] in wanted]


def _name(of: str) -> str:
    return hashlib.sha256(of.encode()).hexdigest()[:24]


def says(texts: Sequence[str], part: str, *, strictly: bool) -> bool:
    """Whether a part of a message states a memory whose wordings are `texts`; `strictly`: the message is known to be a source of it."""
    words = text_roots(part)
    for text in texts:
        telling = telling_words(text)
        if says_again(text, part) or (strictly and coverage(text, part) >= STATED_WORDS):
            return True
        if telling and not telling.isdisjoint(words) and (strictly or telling <= words):
            return True
    return False


def telling_words(text: str) -> frozenset[str]:
    """What a text says of its subject, by its last words: its numbers, else the last name that it does not begin with, else the last content word."""
    details = details_of(text)
    if numbers := {word for word in content_roots(text) if any(character.isdigit() for character in word)}:
        return frozenset(numbers)
    names = [word for word in details.words[1:] if word in details.names]
    last = next(
        (roots for word in reversed(names or details.words) if (roots := content_roots(word))), frozenset[str]()
    )
    return frozenset(last)


def parts(text: str) -> list[str]:
    """The self-contained parts of a message: sentences, and clauses with their own verb."""
    return [part for line in text.splitlines() for sentence in sentences(line.strip()) for part in clauses(sentence)]


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence; a piece of fewer than CLAUSE_WORDS words belongs to the one before it."""
    pieces = _JOINT.split(sentence)
    found = [pieces[0]]
    for joint, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if min(len(piece.split()), len(found[-1].split())) >= CLAUSE_WORDS:
            found.append(piece)
        else:
            found[-1] += joint + piece
    return [piece.strip() for piece in found if piece.strip()]
