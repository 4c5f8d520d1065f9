"""What is hidden with a memory: the messages that it comes from, with their answers, and those that repeat it; by day and after the night."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext

import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.typed.tags import AnswerTags
from dispatcher.memory.typed.tags import parse as tags_of
from dispatcher.prompt.assemble import assemble
from shared.turns.records import Task, Turn
from tests.support.world import World

CHAT = "9912"
SCHOOL = "My son Tom's teacher is called Mrs Blum, and he goes to the Linden school. We live near the river Leie."
TEACHER_FACT, SCHOOL_FACT = (
    "The teacher of the user's son Tom is Mrs Blum",
    "The user's son Tom goes to the Linden school",
)


def told(day: DayMemory, question: str) -> str:
    return assemble(PromptRequest(CHAT, question, count_access=False), day.settings, None, day).text


def act(day: DayMemory, answer: str, task: str, message: str = "") -> list[str]:
    shown = frozenset(one.number for one in day.memories.list(CHAT))
    tags = tags_of(answer, "CODE").tags
    return day.requests.act(AnswerTags(Task(task, CHAT, message), "s", tags, time.time(), shown=shown)).sentences


@pytest.fixture
def day(day: DayMemory) -> DayMemory:
    now = time.time()
    said = [
        Turn("t1", "user", CHAT, SCHOOL, now - 900),
        Turn("t1", "asst", CHAT, "What a nice school!", now - 899),
        Turn("t2", "user", CHAT, "Tom's teacher Mrs Blum is ill.", now - 500),
        Turn("t2", "asst", CHAT, "The weather in Ostend is fine.", now - 499),
    ]
    day.upkeep.store_turns(said)
    return day


def test_a_memory_goes_with_its_messages_and_their_repetitions_and_other_notes_of_them_stay(day: DayMemory) -> None:
    act(day, f"[REMEMBER CODE: {TEACHER_FACT}]\n[REMEMBER CODE: {SCHOOL_FACT}]", "t1", SCHOOL)
    assert act(day, "[FORGET CODE: the teacher's name]", "t3", "forget the teacher's name") == [
        "Forgotten. I will not mention it again."
    ]
    context = told(day, "What do you know of Tom, his teacher, his school, the river and the weather in Ostend?")
    assert "Linden school" in context, "what else was noted stays"
    assert "weather in Ostend" in context, "an answer that does not repeat it stays"
    for gone in ("Blum", "river Leie", "What a nice school!"):
        assert gone not in context, gone
    assert [one.turn.turn_id for one in day.turns.newest(CHAT, 99)] == ["t2:asst"]
    (school,) = day.memories.list(CHAT)
    assert (school.text, school.source_turn) == (SCHOOL_FACT, None)
    act(day, "[FORGET CODE: the Linden school]", "t4")
    assert "Linden" not in told(day, "Which school does Tom go to?")


@pytest.mark.slow
def test_a_released_message_is_hidden_with_its_memory(light: World) -> None:
    """The message is in the release alone; the night takes it out."""
    light.say("t1", SCHOOL)
    light.say("t2", "We live in Ghent")
    light.night()
    with closing(DayMemory(light.settings(), nullcontext)) as day:
        day.turns.remove(CHAT, ["t1:user", "t1:asst"])
        day.remembering.add(CHAT, MemoryType.FACT, TEACHER_FACT, now=time.time(), source_turn="t1:user")
    gone = json.loads(light.command("hmem", "memory", "forget", CHAT, "1", "--json").stdout)
    assert gone["forgotten_turns"][:2] == ["t1:user", "t1:asst"]
    for nights in range(2):
        for _ in range(nights):
            light.night()
        found = light.command(
            "hmem", "search", CHAT, "Tom's teacher Mrs Blum at the Linden school: where do we live?"
        ).stdout
        assert [word for word in ("Blum", "Linden", "Ghent") if word in found] == ["Ghent"]
