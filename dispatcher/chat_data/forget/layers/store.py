"""The day store: turns of the day, session summaries, typed memories, the recorded outcomes of tags, and the tables of features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dispatcher.chat_data.forget.request import Scope
from dispatcher.memory.day.parts import DayStores
from dispatcher.memory.store.memories import Memory
from dispatcher.memory.store.summaries import SessionSummary
from shared.turns.records import Turn


@dataclass
class Stored:
    """Rows that are covered; actions as (chat, task id, number, outcome); `of_features`: name of a table → its rows."""

    turns: list[Turn] = field(default_factory=list)
    summaries: list[SessionSummary] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    actions: list[tuple[str, str, int, str]] = field(default_factory=list)
    of_features: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        said = [turn.words for turn in self.turns] + [text for memory in self.memories for text in memory.texts]
        return said + [one.text for some in self.of_features.values() for one in some]

    @property
    def counts(self) -> dict[str, int]:
        tables = {name: rows for name, rows in vars(self).items() if name != "of_features"} | self.of_features
        return {f"store: {name}": len(rows) for name, rows in tables.items() if rows}


class StoreLayer(DayStores):
    """The day's tables."""

    def find(self, scope: Scope) -> Stored:
        chat_id = scope.asked.chat_id
        covered = [stored.turn for stored in self.turns.every(chat_id) if scope.covers(stored.turn)]
        summaries = [summary for summary in self.summaries.every() if _covers_summary(scope, summary)]
        memories = [one for one in self.memories.every() if _covers_memory(scope, one)]
        rows = self.actions.every(chat_id)
        actions = [row[:4] for row in rows if scope.covers_text(row[0], row[1], at=row[4], text=row[3])]
        of_features = {
            rows.of.table.name: [one for one in rows.rows(chat_id) if _covers_row(scope, one)]
            for rows in self.of_features
        }
        return Stored(covered, summaries, memories, actions, of_features)

    def remove(self, scope: Scope) -> dict[str, int]:
        """Remove the rows; returns layer → how many. The store's files are rewritten, so that no free page contains them."""
        stored = self.find(scope)
        for chat_id, ids in _by_chat((turn.chat_id, turn.turn_id) for turn in stored.turns):
            self.turns.remove(chat_id, ids)
        for chat_id, ids in _by_chat((summary.chat_id, summary.summary_id) for summary in stored.summaries):
            self.summaries.remove(chat_id, ids)
        for memory in stored.memories:
            self.memories.delete(memory.chat_id, memory.memory_id)
        for chat_id, task_id in dict.fromkeys(row[:2] for row in stored.actions):
            self.actions.remove_task(chat_id, task_id)
        for rows in self.of_features:
            for one in stored.of_features[rows.of.table.name]:
                rows.remove(one.chat_id, one.number)
        self.database.scrub()
        return stored.counts

    def texts(self) -> Iterator[str]:
        """All texts by people and models, of all chats."""
        for stored in self.turns.every():
            yield stored.turn.words
        for summary in self.summaries.every():
            yield summary.text
        for memory in self.memories.every():
            yield from memory.texts
        for *_, outcome, _at in self.actions.every():
            yield outcome
        for rows in self.of_features:
            yield from (one.text for one in rows.rows())


def _covers_memory(scope: Scope, memory: Memory) -> bool:
    """For a chat: memories created in that time. For turns: memories from them. For a text: memories that contain it."""
    if scope.asked.kind == "matching":
        return scope.asked.concerns(memory.chat_id) and any(map(scope.asked.holds, memory.texts))
    return scope.asked.concerns(memory.chat_id) and scope.covers_made(memory.chat_id, memory.created, memory.sources)


def _covers_row(scope: Scope, one: Any) -> bool:
    """For a chat: those made in that time. Else the ones that a covered turn asked for, or that contain the text."""
    task_id = (one.source_turn or "").rpartition(":")[0]
    return scope.covers_text(one.chat_id, task_id, one.created, one.text)


def _covers_summary(scope: Scope, summary: SessionSummary) -> bool:
    """Summaries that contain any of it; for a chat, all that begin in that time."""
    made = scope.covers_made(summary.chat_id, summary.started_at, summary.turn_ids)
    return scope.asked.concerns(summary.chat_id) and (made or scope.asked.holds(summary.text))


def _by_chat(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    chats: dict[str, list[str]] = {}
    for chat_id, one in pairs:
        chats.setdefault(chat_id, []).append(one)
    return sorted(chats.items())
