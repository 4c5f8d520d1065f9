"""What a message said beside what is forgotten stays findable, and what is forgotten is nowhere; by day and after the night."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from dispatcher.memory.day.context import PromptRequest
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.typed.tags import AnswerTags
from dispatcher.memory.typed.tags import parse as tags_of
from dispatcher.memory.withholding import clauses, hidden_with, parts, says
from dispatcher.prompt.assemble import assemble
from shared.config.settings import load_settings
from shared.turns.records import Task, Tombstone, Turn
from tests.support.world import World

CHAT = "9912"
SCHOOL = "My son Tom's teacher is called Mrs Blum, and he goes to the Linden school. We live near the river Leie."
TEACHER_FACT, SCHOOL_FACT = (
    "The teacher of the user's son Tom is Mrs Blum",
    "The user's son Tom goes to the Linden school",
)


@pytest.mark.parametrize(("sentence", "found"), [
    ("Tom's teacher is Mrs Blum, and he goes to the Linden school", ["Tom's teacher is Mrs Blum", "he goes to the Linden school"]),
    ("Tom's teachers are Mrs Blum and Mr Kent", ["Tom's teachers are Mrs Blum and Mr Kent"]),
    ("I like tea, coffee and milk", ["I like tea, coffee and milk"]),
    ("The code is 7731; the key is under the mat", ["The code is 7731", "the key is under the mat"]),
    ("Mein Hund heißt Rex und meine Katze heißt Mia", ["Mein Hund heißt Rex", "meine Katze heißt Mia"]),
    ("", []),
])  # fmt: skip
def test_a_sentence_is_cut_where_each_piece_says_something(sentence: str, found: list[str]) -> None:
    assert clauses(sentence) == found


@pytest.mark.parametrize(("memory", "part", "strictly", "said"), [
    (TEACHER_FACT, "My son Tom's teacher is called Mrs Blum", True, True),
    (TEACHER_FACT, "he goes to the Linden school", True, False),
    (TEACHER_FACT, "Blum rang me up again", True, True),
    (TEACHER_FACT, "Tom is nine", True, False),
    ("The wifi password is owl", "it is owl, as the bird", True, True),
    ("The wifi password is owl", "the wifi is slow", True, False),
    ("The garage code is 7731", "and 7731 for the garage", False, True),
    ("The user likes tea", "it is tea time in the garage", False, True),
    ("The user's sister Vera lives in Lisbon", "Vera came by train", False, False),
])  # fmt: skip
def test_whether_a_part_says_a_memory(memory: str, part: str, *, strictly: bool, said: bool) -> None:
    assert says([memory], part, strictly=strictly) == said


def test_what_cannot_be_told_is_hidden_whole() -> None:
    turns = {one.turn_id: one for one in (Turn("t1", "user", CHAT, "He is called like the bird. It rains.", 1.0),
                                          Turn("t1", "asst", CHAT, "A fine name. Take an umbrella.", 2.0))}  # fmt: skip
    for known in ({}, turns):
        gone = hidden_with(["The dog is called Robin"], ["t1"], [], ["t2:user"], "t9", known, "stone")
        assert (gone.turns, gone.rests) == (("t1:user", "t1:asst", "t9:user", "t9:asst", "t2:user"), ())
    assert parts("One. Two!\n\nThree") == ["One.", "Two!", "Three"]


def told(day: DayMemory, question: str) -> str:
    return assemble(PromptRequest(CHAT, question, count_access=False), day.settings, None, day).text


def act(day: DayMemory, answer: str, task: str, message: str = "") -> list[str]:
    shown = frozenset(one.number for one in day.memories.list(CHAT))
    tags = tags_of(answer, "CODE").tags
    return day.requests.act(AnswerTags(Task(task, CHAT, message), "s", tags, time.time(), shown=shown)).sentences


@pytest.fixture
def day(tmp_path: Path) -> Any:
    some = load_settings(
        hmem_state_dir=tmp_path, hmem_memory_dir=tmp_path / "memory", embedder="local", memory_deadline_ms=20_000
    )
    with closing(DayMemory(some, nullcontext)) as made:
        made.open()
        now = time.time()
        store = made.upkeep.store_turns
        store([Turn("t1", "user", CHAT, SCHOOL, now - 900), Turn("t1", "asst", CHAT, "Mrs Blum, noted. What a nice school!", now - 899),
                          Turn("t2", "user", CHAT, "Tom's teacher Mrs Blum is ill. The weather in Ostend is fine.", now - 500)])  # fmt: skip
        yield made


def test_to_forget_a_detail_leaves_the_rest_of_its_message(day: DayMemory) -> None:
    act(day, f"[REMEMBER CODE: {TEACHER_FACT}]\n[REMEMBER CODE: {SCHOOL_FACT}]", "t1", SCHOOL)
    assert act(day, "[FORGET CODE: the teacher's name]", "t3", "forget the teacher's name") == [
        "Forgotten. I will not mention it again."
    ]
    context = told(day, "What do you know of Tom, his teacher, his school, the river and the weather in Ostend?")
    assert "Blum" not in context
    for kept in ("Linden school", "river Leie", "weather in Ostend is fine", "What a nice school!"):
        assert kept in context, kept
    stored = {one.turn.turn_id: one.turn.content for one in day.turns.newest(CHAT, 99)}
    assert not any("Blum" in content for content in stored.values())
    assert all(name.startswith("rest-") for name in stored)
    (school,) = day.memories.list(CHAT)
    assert (school.text, (school.source_turn or "").startswith("rest-")) == (SCHOOL_FACT, True), (
        "it is told by what is left"
    )
    act(day, "[FORGET CODE: the Linden school]", "t4")
    context = told(day, "What do you know of Tom, his school and the river?")
    assert "Linden" not in context
    assert "river Leie" in context


def test_who_forgets_the_message_itself_forgets_what_was_left_of_it(day: DayMemory) -> None:
    act(day, f"[REMEMBER CODE: {TEACHER_FACT}]\n[REMEMBER CODE: {SCHOOL_FACT}]", "t1", SCHOOL)
    act(day, "[FORGET CODE: the teacher's name]", "t3", "forget the teacher's name")
    act(day, "[FORGET CODE: the Linden school]", "t4")
    left = {one.turn.turn_id for one in day.turns.newest(CHAT, 99) if "Leie" in one.turn.content}
    assert left
    stone = Tombstone("e", CHAT, time.time(), turn_ids=frozenset({"t1:user"}), erase=True)
    with closing(StoreLayer(day.settings)) as layer:
        found = layer.find(Scope(ForgetRequest("turn", CHAT, turn_ids=("t1:user",)), [stone]))
        assert left <= {turn.turn_id for turn in found.turns}, "what was left of what was left, too"
        only = layer.find(Scope(ForgetRequest("turn", CHAT, turn_ids=("t1:user",), hidden=True), [stone]))
        assert not left & {turn.turn_id for turn in only.turns}, "what was hidden is erased, and no more"


def test_a_second_wish_finds_the_answer_that_the_first_has_left(day: DayMemory) -> None:
    said = "I live in Lyon. My dog is called Rex."
    day.upkeep.store_turns([Turn("d1", "user", CHAT, said, time.time() - 300),
                     Turn("d1", "asst", CHAT, "Rex is a lovely name! Enjoy the town.", time.time() - 299)])  # fmt: skip
    act(day, "[REMEMBER CODE: The user lives in Lyon]\n[REMEMBER CODE: The user's dog is called Rex]", "d1", said)
    act(day, "[FORGET CODE: lives in Lyon]", "d2")
    assert "Rex" in told(day, "How is my dog called?")
    act(day, "[FORGET CODE: the dog is called Rex]", "d3")
    context = told(day, "How is my dog called, and where do I live?")
    assert "Rex" not in context
    assert "Lyon" not in context


def test_a_fact_of_several_details_loses_the_one(day: DayMemory) -> None:
    both = "The teacher of the user's son Tom is Mrs Blum, and his school is the Linden school"
    act(day, f"[REMEMBER CODE: {both}]", "t1", SCHOOL)
    act(day, "[FORGET CODE: the teacher's name]", "t3")
    assert [memory.text for memory in day.memories.list(CHAT)] == ["his school is the Linden school"]
    context = told(day, "Who is Tom's teacher, and which school is it?")
    assert "Blum" not in context
    assert "Linden school" in context


def test_a_task_that_forgets_again_changes_nothing(day: DayMemory) -> None:
    act(day, f"[REMEMBER CODE: {TEACHER_FACT}]", "t1", SCHOOL)
    for _ in range(2):
        act(day, "[FORGET CODE: Tom's teacher]", "t3")
        left = sorted(one.turn.content for one in day.turns.newest(CHAT, 99))
        assert len(left) == 3
    assert len(day.forgotten.of(CHAT)) == 1


@pytest.mark.slow
def test_the_rest_of_a_released_message_is_found_and_the_forgotten_words_are_not(world: World) -> None:
    """The message is in the release alone; the night takes it out, and what is left of it stays in the day store."""
    world.say("t1", SCHOOL)
    world.night()
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.turns.remove(CHAT, ["t1:user", "t1:asst"])
        day.remembering.add(CHAT, MemoryType.FACT, TEACHER_FACT, now=time.time(), source_turn="t1:user")
    gone = json.loads(world.command("hmem", "memory", "forget", CHAT, "1", "--json").stdout)
    assert "t1:user" in gone["forgotten_turns"]
    for _ in range(2):
        for question, words in (
            ("Tom's teacher Mrs Blum", "Blum"),
            ("which school does he go to?", "Linden"),
            ("river Leie", "Leie"),
        ):
            found = world.command("hmem", "search", CHAT, question).stdout
            assert (words in found) == (words != "Blum"), found
        world.night()
