"""What is kept in memory so that an answer costs little: it is as what it was made of, it changes with that, and it is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from sqlalchemy import event

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import DayContext, PromptRequest
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from shared.config.settings import load_settings
from shared.turns.records import Turn

NOW = 1.76e9


@pytest.fixture
def day(tmp_path: Path) -> Iterator[DayMemory]:
    made = load_settings(hmem_state_dir=tmp_path, hmem_memory_dir=tmp_path / "memory", embedder="none")
    with closing(DayMemory(made, nullcontext)) as opened:
        yield opened


def said(task: str, chat: str = "1", session: str = "s", content: str = "the boiler hums") -> Turn:
    return Turn(task, "user", chat, f"{content} {task}", NOW, "anna", session)


def context_of(day: DayMemory, session: str | None) -> DayContext:
    return day.context(PromptRequest("1", "boiler", session=session), day.settings)


def test_the_day_is_read_again_only_when_it_changed_and_made_again_only_what_is_new(day: DayMemory) -> None:
    day.upkeep.store_turns([said("t1"), said("t2", session="r"), said("t1", chat="2")])
    first = day.day_turns.today("1")
    assert day.day_turns.today("1") is first
    assert first.sessions == {"s": {"t1:user"}, "r": {"t2:user"}}
    day.upkeep.store_turns([said("t3"), said("t2", session="r", content="replaced")])
    second = day.day_turns.today("1")
    assert [turn.chunk.text for turn in second.items.turns] == [
        "the boiler hums t1",
        "replaced t2",
        "the boiler hums t3",
    ]
    kept = [new is old for new, old in zip(second.items.turns, first.items.turns, strict=False)]
    assert kept == [True, False]
    assert second.sessions["s"] == {"t1:user", "t3:user"}
    day.turns.remove("1", ["t1:user"])
    assert [turn.chunk.exchange for turn in day.day_turns.today("1").items.turns] == ["t2", "t3"]
    assert context_of(day, "s").known == {"t3:user"}
    assert context_of(day, None).known == frozenset()


def test_a_context_reads_the_store_once(day: DayMemory) -> None:
    """One transaction for all that a prompt needs, and a single statement where nothing has changed."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement.split()[0])

    day.upkeep.store_turns([said("t1")])
    day.remembering.add("1", MemoryType.FACT, "the boiler is old", now=NOW)
    day.summaries.store(SessionSummary("1", "s", "They spoke of it.", NOW, NOW, NOW, ("t1:user",), tier="long"))
    event.listen(day.database._ready(), "before_cursor_execute", note)
    assert "boiler is old" in context_of(day, "s").profile
    assert statements.count("BEGIN") == 1
    assert statements.count("SELECT") == len(statements) - 1 == 5, "revisions, memories, turns, summaries by both tiers"
    statements.clear()
    assert context_of(day, "s").items is not None
    assert statements == ["BEGIN", "SELECT"]
