"""What a question about days to come is given."""

from __future__ import annotations

from contextlib import closing, nullcontext
from datetime import datetime

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.prompt.assemble import assemble
from shared.turns.records import Task, Turn
from tests.support.day.acting import BERLIN
from tests.support.world import World

ROOMS = "cellar attic kitchen garage garden bathroom hallway balcony office"


def test_what_is_due_then_comes_with_a_question_about_days_to_come(light: World) -> None:
    """Of memories and earlier turns, however long ago they were told; not with a question about what was."""
    monday = datetime(2026, 11, 9, 9, tzinfo=BERLIN).timestamp()
    with closing(DayMemory(light.settings(embedding_backend="none", chat_timezone=BERLIN.key), nullcontext)) as day:
        day.open()
        # More than a profile has room for.
        told = [(f"The {room} was painted by the same people as the house of the {room}s", 0) for room in ROOMS.split()]
        told += [("the dentist sees Lena on Thursday 12 November 2026 at 8:20", 40), ("the plumber comes on Friday 20 November 2026", 0)]  # fmt: skip
        for number, (note, days) in enumerate(told):
            day.acting.add(Task(f"t{number}", "9", ""), note, monday - days * 86_400)
        day.upkeep.store_turns([Turn("t99", "user", "9", "The school play is on 13 November", monday - 20 * 86_400)])

        def given(message: str) -> str:
            request = PromptRequest("9", message, session="s", now=monday, count_access=False)
            return assemble(request, day.settings, None, day).text

        ahead = given("What do I have to do this week?")
        assert "the dentist sees Lena" in ahead
        assert "The school play is on 13 November" in ahead
        assert "plumber" not in ahead
        assert "dentist" not in given("What did I do last week?")
        assert "plumber" in given("What is on next week?")
