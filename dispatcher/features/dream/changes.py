"""What nights have changed of a chat's memories, and what they propose: as before and after, with the message that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.features.dream.putting_in_order import Dream, Dreaming, night_of
from dispatcher.features.dream.records import read_proposed
from dispatcher.memory.typed.actions import sources_of

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory
    from shared.turns.records import Turn

#: Messages that are quoted of one change.
MOST_QUOTED = 2


@dataclass(frozen=True)
class ShownChange:
    """A change of a night. `number`: of the memory that it made; of a proposal, of the change in its night. `before`: what it replaced, texts with
    numbers; `deadline`: the last day of what ends, in POSIX seconds; `replaced`: something else took its place since, so it cannot be taken back."""

    night: int
    number: int
    before: Sequence[tuple[int, str]]
    after: str
    deadline: float | None
    because: Sequence[Turn]
    proposed: bool = False
    replaced: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "night": self.night,
            "number": self.number,
            "proposed": self.proposed,
            "before": [{"number": number, "text": text} for number, text in self.before],
            "after": self.after,
            "until": self.deadline,
            "because": [
                {"turn_id": one.turn_id, "said_at": one.timestamp, "text": one.content} for one in self.because
            ],
        }


def all_changes(dreaming: Dreaming, client: Redis, chat_id: str, night: int | None = None) -> list[ShownChange]:
    """Those that nobody has decided yet, then those that were made."""
    found = [*changes_proposed(dreaming, read_proposed(client, chat_id)), *changes_made(dreaming.day, chat_id)]
    return [one for one in found if night in (None, one.night)]


def changes_made(day: DayMemory, chat_id: str) -> list[ShownChange]:
    """Those that were not taken back, the newest first."""
    known = day.remembering.of_chat(chat_id)
    found = []
    for memory in reversed(known.shown):
        if (run := night_of(memory)) is None:
            continue
        replaced = [one for one in known.shown if one.superseded_by == memory.memory_id]
        taken_over = {turn for one in replaced for turn in sources_of(one)}
        sources = [one for one in sources_of(memory) if one not in taken_over] or sources_of(memory)
        before = [(one.number, one.text) for one in replaced]
        said, gone = _quoted(day, chat_id, sources), memory.memory_id in known.superseded
        found.append(ShownChange(run, memory.number, before, memory.text, memory.deadline, said, replaced=gone))
    return sorted(found, key=lambda one: -one.night)


def changes_proposed(dreaming: Dreaming, dreams: Sequence[Dream]) -> list[ShownChange]:
    """Those that nobody has decided yet."""
    found = []
    for dream in dreams:
        for number, change in dreaming.undecided(dream)[0].items():
            evidence = dreaming.evidence(dream, change)
            before, row = (
                [(one.number, one.text) for one in evidence.memories],
                dreaming.planned_row(dream, change, evidence),
            )
            said = evidence.turns[:MOST_QUOTED]
            found.append(ShownChange(dream.run, number, before, row.text, row.deadline, said, proposed=True))
    return found


def _quoted(day: DayMemory, chat_id: str, turn_ids: Sequence[str]) -> list[Turn]:
    read = day.turn_texts.read(chat_id, turn_ids)
    turns = (read[one] for one in turn_ids if one in read)
    return [turn for turn in turns if not day.forgotten.covers(turn)][:MOST_QUOTED]
