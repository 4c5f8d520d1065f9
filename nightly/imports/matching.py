"""Whether a turn was already recorded under another id: same chat, same role, about the same time, the same words.

Telegram, a session file and the wire have different clocks, ids and spellings: Markdown is removed, a long answer comes in parts. So only
letters and digits are compared.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from shared.turns.records import Turn

#: An answer may take minutes, and h-cli dates the question when it is answered.
NEAR_SECONDS = 15 * 60
#: Shorter texts (in letters and digits) never match as a part: `yes` occurs in too many turns.
PART_CHARACTERS = 20

#: A message in a group names the bot; the recorded turn does not.
_BOT_NAME = re.compile(r"@\w{2,29}bot\b", re.IGNORECASE)


@lru_cache(maxsize=8192)
def letters(text: str) -> str:
    """Letters and digits of a text, case-folded and normalised; of a text without any, everything but white space."""
    plain = unicodedata.normalize("NFKC", _BOT_NAME.sub(" ", text)).casefold()
    return "".join(filter(str.isalnum, plain)) or "".join(plain.split())


class Moments:
    """Times by (chat, role): entries near a time are found without a look at the rest."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, str], list[tuple[float, str]]] = {}
        self._unsorted: set[tuple[str, str]] = set()

    def add(self, chat_id: str, turn_id: str, timestamp: float) -> None:
        place = (chat_id, _role(turn_id))
        self._by.setdefault(place, []).append((timestamp, turn_id))
        self._unsorted.add(place)

    def near(self, turn: Turn) -> list[str]:
        """Turn ids of its chat and role within NEAR_SECONDS, the nearest first."""
        place = (turn.chat_id, turn.role)
        entries = self._by.get(place, [])
        if place in self._unsorted:
            entries.sort()
            self._unsorted.discard(place)
        first = bisect.bisect_left(entries, (turn.timestamp - NEAR_SECONDS, ""))
        last = bisect.bisect_right(entries, (turn.timestamp + NEAR_SECONDS, "\uffff"))
        return [turn_id for _, turn_id in sorted(entries[first:last], key=lambda one: abs(one[0] - turn.timestamp))]


def _role(turn_id: str) -> str:
    return turn_id.rpartition(":")[2]


class Recorded:
    """The known turns, searchable by their words."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._moments, self._turns = Moments(), dict[str, Turn]()
        self.add(turns)

    def add(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if turn.turn_id not in self._turns:
                self._moments.add(turn.chat_id, turn.turn_id, turn.timestamp)
            self._turns[turn.turn_id] = turn

    def twin(self, turn: Turn, own: Collection[str], spent: Collection[str]) -> str | None:
        """The id of a known turn with these words, except `own` ones; with equal words (not parts) each turn matches once: `spent` ones do not."""
        wanted = letters(turn.content)
        part_of = None
        for turn_id in self._moments.near(turn):
            if turn_id in own:
                continue
            known = letters(self._turns[turn_id].content)
            if known == wanted and turn_id not in spent:
                return turn_id
            if len(wanted) >= PART_CHARACTERS and len(known) > len(wanted) and wanted in known:
                part_of = part_of or turn_id
        return part_of
