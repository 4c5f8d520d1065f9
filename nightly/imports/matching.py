"""Whether something was recorded already under another id: same chat, same side, about the same time, the same words.

Telegram, a session file and the wire each have a clock, ids and a way of writing of their own: Markdown is gone, a long answer comes in
parts. So the letters and digits alone are compared.
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
#: Fewer letters and digits than these are no part of anything: `yes` is in too much.
PART_CHARACTERS = 20

#: A group's message names the bot that it is for; what is recorded does not.
_BOT_NAME = re.compile(r"@\w{2,29}bot\b", re.IGNORECASE)


@lru_cache(maxsize=8192)
def letters(text: str) -> str:
    """Letters and digits of a text, without case, in one form; of a text without any, all but white space."""
    plain = unicodedata.normalize("NFKC", _BOT_NAME.sub(" ", text)).casefold()
    return "".join(filter(str.isalnum, plain)) or "".join(plain.split())


class Moments:
    """When something was, by (chat, role): what is near a time is found without looking at the rest."""

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
        held = self._by.get(place, [])
        if place in self._unsorted:
            held.sort()
            self._unsorted.discard(place)
        first = bisect.bisect_left(held, (turn.timestamp - NEAR_SECONDS, ""))
        last = bisect.bisect_right(held, (turn.timestamp + NEAR_SECONDS, "\uffff"))
        return [turn_id for _, turn_id in sorted(held[first:last], key=lambda one: abs(one[0] - turn.timestamp))]


def _role(turn_id: str) -> str:
    return turn_id.rpartition(":")[2]


class Recorded:
    """The turns that are known, to be found by their words."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._moments, self._turns = Moments(), dict[str, Turn]()
        self.add(turns)

    def add(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if turn.turn_id not in self._turns:
                self._moments.add(turn.chat_id, turn.turn_id, turn.timestamp)
            self._turns[turn.turn_id] = turn

    def twin(self, turn: Turn, own: Collection[str], spent: Collection[str]) -> str | None:
        """The id of a known turn that has these words, `own` ones aside; equal words (not parts) match each turn once: `spent` ones do not."""
        wanted = letters(turn.content)
        part_of = None
        for turn_id in self._moments.near(turn):
            if turn_id in own:
                continue
            held = letters(self._turns[turn_id].content)
            if held == wanted and turn_id not in spent:
                return turn_id
            if len(wanted) >= PART_CHARACTERS and len(held) > len(wanted) and wanted in held:
                part_of = part_of or turn_id
        return part_of
