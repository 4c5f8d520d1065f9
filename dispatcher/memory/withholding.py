"""What is hidden with a memory: of each message that told it the parts that say it, and no more where the parts can be told.

A tombstone names whole turns. So a message that said other things too is hidden as a whole, and what is left of it is kept beside it as a turn
of its own (same speaker, same time; its name leads back to the message, so that it goes with it), in the store of the day. It is found like any
turn of the day, until it is forgotten itself. Where no part can be told to be the one (the words are others), all of it stays hidden.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import coverage, says_again
from dispatcher.memory.typed.statements import statement
from shared.turns.chunking import sentences
from shared.turns.records import ROLES, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.turns import Turns
    from shared.search.recall import OpenRelease

#: Share of a memory's words from which a part of the very message that told it says it.
TOLD_BY_WORDS = 0.5
#: Characters of a name ("rest-", 24 hex digits, "-").
PREFIX_LENGTH = 30
_TITLES = frozenset("mr mrs ms miss dr prof herr frau mme m".split())
_JOINT = re.compile(r"(\s*;\s*|,?\s+(?:and|but|while|und|aber|et|mais|и|а|но)\s+|,\s+)", re.IGNORECASE)
_MOVES = frozenset(
    "go goes went come comes came get gets got will can must should said says told geht kommt war va vient ходит учится".split()
)


@dataclass(frozen=True)
class Hidden:
    """Turns that go out of sight, what is left of them, and by which turn (or none) each is to be named from now on."""

    turns: tuple[str, ...]
    rests: tuple[Turn, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def told_by(self, memory: Memory) -> str | None:
        """The turns that told another memory, as they are named now; None if none is left."""
        told = [self.renamed.get(one, "" if one in self.turns else one) for one in (memory.source_turn or "").split()]
        return " ".join(dict.fromkeys(filter(None, told))) or None


class TurnTexts:
    """What turns said, from the store of the day, else from the release; where what is left of some is kept."""

    def __init__(self, turns: Turns, release: Callable[[], AbstractContextManager[OpenRelease | None]]) -> None:
        self._turns, self._release = turns, release

    def read(self, chat_id: str, turn_ids: Sequence[str]) -> dict[str, Turn]:
        """Those of these turns that are known, by id."""
        found = {stored.turn.turn_id: stored.turn for stored in self._turns.named(chat_id, turn_ids)}
        missing = [one for one in turn_ids if one not in found]
        if missing:
            with self._release() as release:
                found |= release.turns(chat_id, missing) if release else {}
        return found

    def keep(self, rests: Sequence[Turn], connection: Connection) -> None:
        from dispatcher.memory.store.turns import StoredTurn

        stored = [StoredTurn(turn) for turn in rests]
        if stored:
            self._turns.store(stored, connection=connection)


@dataclass
class _Hiding:
    """`whole`: turns that go out of sight; `rests`: by their ids what is left of them."""

    texts: Sequence[str]
    known: Mapping[str, Turn]
    stone_id: str
    whole: list[str] = field(default_factory=list)
    rests: dict[str, Turn] = field(default_factory=dict)

    def take(self, turn_id: str, *, strictly: bool = True) -> bool:
        """Hide a turn. Whether something of it is left."""
        self.whole.append(turn_id)
        rest = _rest(self.known.get(turn_id), self.texts, self.stone_id, strictly=strictly)
        if rest:
            self.rests[turn_id] = rest
        return rest is not None

    def says(self, turn_id: str) -> bool:
        """Whether a turn says it, or is not known."""
        turn = self.known.get(turn_id)
        return turn is None or any(says(self.texts, part, strictly=True) for part in parts(turn.content))


def hidden_with(
    texts: Sequence[str],
    sources: Sequence[str],
    answers: Sequence[str],
    again: Sequence[str],
    asking: str,
    known: Mapping[str, Turn],
    stone_id: str,
) -> Hidden:
    """What goes with a memory that was told as `texts`, by the exchanges `sources` (task ids), again by the turns `again`, and which the exchange
    `asking` is to forget. `answers`: turns that answered what is left of a message already. `known`: by id what turns said."""
    hiding, asked = _Hiding(texts, known, stone_id), [f"{asking}:{role}" for role in ROLES]
    for task in dict.fromkeys(sources):
        told, answer = (f"{task}:{role}" for role in ROLES)
        if task == asking or not hiding.take(told):
            hiding.whole += [told, answer]
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
    """Turn id → by which ids what is left of it is named. An answer that stays keeps its own: a later wish finds it by that."""
    named = {turn_id: rest.turn_id for turn_id, rest in hiding.rests.items()}
    for task in sources:
        told, answer = (f"{task}:{role}" for role in ROLES)
        if told in named:
            kept = named.get(answer, "" if answer in hiding.whole else answer)
            named[told] = f"{named[told]} {kept}".strip()
    return named


def _rest(turn: Turn | None, texts: Sequence[str], stone_id: str, *, strictly: bool) -> Turn | None:
    """What a turn says beside a memory, as a turn; None if that cannot be told, or is nothing."""
    if turn is None:
        return None
    every = parts(turn.content)
    left = [part for part in every if not says(texts, part, strictly=strictly)]
    quoted = turn.origin.quote is not None and _says_part_of(texts, turn.origin.quote.text, strictly=strictly)
    if not left or (len(left) == len(every) and not quoted):
        return None
    task_id = f"{rest_prefix(turn.turn_id)}{_name(stone_id)}"
    return replace(
        turn, task_id=task_id, content=" ".join(left), session=None, extra=turn.origin.without_quote.to_json()
    )


def _says_part_of(texts: Sequence[str], text: str, *, strictly: bool) -> bool:
    return any(says(texts, part, strictly=strictly) for part in parts(text))


def rest_prefix(turn_id: str) -> str:
    """How the task ids of all that is left of a turn begin, and of what is left of that: who forgets the turn itself finds them by it."""
    return turn_id[:PREFIX_LENGTH] if turn_id.startswith("rest-") else f"rest-{_name(turn_id)}-"


def rests_of(turn_ids: Iterable[str], turns: Iterable[Turn]) -> list[Turn]:
    """Those of the turns that are left of these ones."""
    wanted = {rest_prefix(turn_id) for turn_id in turn_ids}
    return [turn for turn in turns if turn.task_id.startswith("rest-") and turn.task_id[:PREFIX_LENGTH] in wanted]


def _name(of: str) -> str:
    return hashlib.sha256(of.encode()).hexdigest()[:24]


def says(texts: Sequence[str], part: str, *, strictly: bool) -> bool:
    """Whether a part of a message says a memory that was told as `texts`; `strictly`: the message is known to have told it."""
    words = {word.root for word in statement(part).content}
    for text in texts:
        telling = telling_words(text)
        if says_again(text, part) or (strictly and coverage(text, part) >= TOLD_BY_WORDS):
            return True
        if telling and not telling.isdisjoint(words) and (strictly or telling <= words):
            return True
    return False


def telling_words(text: str) -> frozenset[str]:
    """The words that a text is about: names and numbers of what it says of its subject, else all that it says of it."""
    said = statement(text)
    value = [word for word in (said.value or said.subject) if not word.light and word.text not in _TITLES]
    telling = [word for word in value if word.kind in ("name", "number")]
    return frozenset(word.root for word in telling or value)


def parts(text: str) -> list[str]:
    """Pieces of a message that say something by themselves: sentences, and clauses with a verb of their own."""
    return [part for line in text.splitlines() for sentence in sentences(line.strip()) for part in clauses(sentence)]


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence, each with a verb; a piece without one belongs to the one ahead."""
    pieces = _JOINT.split(sentence)
    found = [pieces[0]]
    for joint, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if _has_verb(piece) and _has_verb(found[-1]):
            found.append(piece)
        else:
            found[-1] += joint + piece
    return [piece.strip() for piece in found if piece.strip()]


def _has_verb(piece: str) -> bool:
    return bool(statement(piece).verb) or not _MOVES.isdisjoint(piece.lower().split())
