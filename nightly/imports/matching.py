"""Whether a turn was already recorded under another id: same chat, same role, about the same time, the same words.

Telegram, a session file and the wire have different clocks, ids and spellings: Markdown is removed, a long answer comes in parts. So only
letters and digits are compared.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.imports.seen import Seen
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
        place = (chat_id, role_of(turn_id))
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
        return nearest(turn, entries[first:last])


def role_of(turn_id: str) -> str:
    return turn_id.rpartition(":")[2]


class Recorded:
    """The recorded turns, those that this night exported and those taken from imports included, searchable by their words."""

    def __init__(self, catalog: Catalog, reader: ChatReader, seen: Seen) -> None:
        self._catalog, self._seen = catalog, seen
        self._reader = reader
        self._archived = lru_cache(maxsize=8192)(self._letters_in_archive)

    def twin(self, turn: Turn, file: int) -> str | None:
        """The id of a recorded turn with these words, except those in the same `file`; with equal words (not parts) each turn matches once: a spent
        one does not."""
        wanted, part_of = letters(turn.content), None
        for turn_id in self._near(turn):
            if self._seen.is_own(file, turn_id):
                continue
            known = seen.letters if (seen := self._seen.turn(turn_id)) else self._archived(turn_id, turn.chat_id)
            if known == wanted and not self._seen.is_spent(turn_id):
                return turn_id
            if len(wanted) >= PART_CHARACTERS and len(known) > len(wanted) and wanted in known:
                part_of = part_of or turn_id
        return part_of

    def _near(self, turn: Turn) -> list[str]:
        """Turn ids of its chat and role within NEAR_SECONDS, the nearest first."""
        span = (turn.chat_id, turn.timestamp - NEAR_SECONDS, turn.timestamp + NEAR_SECONDS)
        archived = (row for row in self._catalog.near(*span) if self._seen.turn(row[1]) is None)
        return nearest(turn, [*archived, *self._seen.near(*span)])

    def _letters_in_archive(self, turn_id: str, chat_id: str) -> str:
        place = self._catalog.place_of(turn_id)
        return letters(self._reader.read(place, chat_id).content) if place else ""


def nearest(turn: Turn, moments: Iterable[tuple[float, str]]) -> list[str]:
    """Of (time, turn id), the ids of the turn's role, the nearest to its time first."""
    ordered = sorted(moment for moment in moments if role_of(moment[1]) == turn.role)
    return [turn_id for _, turn_id in sorted(ordered, key=lambda one: abs(one[0] - turn.timestamp))]
