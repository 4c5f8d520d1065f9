"""Acting on tags: each effect once, whatever dies in between; clear, ambiguous and wrong search texts; forgetting comes first."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.typed.actions import Outcome
from dispatcher.memory.typed.tags import AnswerTags, parse
from shared.config.settings import load_settings
from shared.turns.records import RecordRefused, Task, loads_object
from tests.servers.ollama_api import OllamaApi
from tests.support.day.acting import DAY, NOW, SAID, Dies, Host
from tests.support.machine import wait_for
from tests.support.stores import Stores, at_once


def test_every_kind_of_tag_does_what_it_says(host: Host) -> None:
    said = host.answer(
        "[REMEMBER CODE: The user has a cat called Mishka]\n[PREFERENCE CODE: short answers]\n"
        "[GOAL CODE: finish the tax return | DEADLINE: next Friday]"
        "\n[GOAL CODE: paint the kitchen]"
    )
    assert said == [], "what is kept needs no words"
    cat, short, tax, kitchen = host.memories.list(SAID)
    assert [one.type for one in (cat, short, tax, kitchen)] == ["fact", "preference", "goal", "goal"]
    assert (cat.text, cat.created, cat.session, cat.source_turn) == (
        "The user has a cat called Mishka", NOW, "session-1", "t1:user",
    )  # fmt: skip
    assert tax.deadline == NOW + 7 * DAY + 15 * 3600 - 1, "the end of Friday 22 January, in the chat's zone"
    assert kitchen.deadline is None
    assert host.answer("[DONE CODE: taxes]", "t2", now=NOW + DAY) == ["Done: finish the tax return"]
    done = host.memories.by_number(SAID, tax.number)
    assert done is not None
    assert (done.type, done.completed_at) == ("completed_goal", NOW + DAY)
    assert host.answer("[FORGET CODE: the cat]", "t3") == ["Forgotten. I will not mention it again."]
    assert host.texts() == [("preference", "short answers"), ("completed_goal", tax.text), ("goal", kitchen.text)]
    (stone,) = host.forgotten.of(SAID)
    assert stone.named == {"t1:user", "t1:asst", "t3:user", "t3:asst"}
    assert host.answer(f"[DONE CODE: {kitchen.number}]\n[FORGET CODE: {short.number}]", "t4") == [
        "Done: paint the kitchen", "Forgotten. I will not mention it again.",
    ]  # fmt: skip


def test_a_number_that_was_not_shown_is_refused_and_said(host: Host) -> None:
    host.answer("[REMEMBER CODE: The boiler is a Vaillant]\n[GOAL CODE: swim]")
    other = host.answer("[REMEMBER CODE: Their boiler is a Bosch]", "t1", chat="77")
    shown = frozenset({1, 3})
    said = host.answer("[FORGET CODE: 2]\n[DONE CODE: 3]\n[DONE CODE: 1]", "t2", shown=shown)
    assert [one.split(",")[0] for one in said] == [
        f"Number {number} was not among the notes that I had for this answer" for number in (2, 3, 1)
    ], "not shown, not there, no goal"
    (said_so,) = host.answer("[REMEMBER CODE: The boiler is a Viessmann | REPLACES: 2]", "t3", shown=shown)
    assert said_so.startswith("Noted, but number 2 was not among the notes")
    assert host.answer("[REMEMBER CODE: x | REPLACES: the boiler]", "t4", shown=shown)[0].startswith(
        "Noted, but number the boiler"
    )
    assert [text for _, text in host.texts()] == ["The boiler is a Vaillant", "swim", "The boiler is a Viessmann", "x"]
    assert (other, len(host.texts("77"))) == ([], 1)


def test_a_correction_hides_what_it_corrects_and_never_the_message_that_brings_the_news(host: Host) -> None:
    host.answer("[REMEMBER CODE: The flight leaves on 13 November]")
    host.repeats["The flight leaves on 13 November"] = ["t1:user", "t2:user"]
    host.answer("[FORGET CODE: the flight on 13 November]\n[REMEMBER CODE: The flight leaves on 14 November]", "t2")
    (stone,) = host.forgotten.of(SAID)
    assert stone.named == {"t1:user", "t1:asst"}
    assert host.texts() == [("fact", "The flight leaves on 14 November")]


def test_an_exact_text_wins_and_a_part_of_a_word_does_if_one_memory_has_it(host: Host) -> None:
    host.answer(
        "[REMEMBER CODE: Tom owes Sam 20 euros]\n[REMEMBER CODE: Tom owes Sam 60 euros]\n[GOAL CODE: renew the passport]"
    )
    assert host.answer("[FORGET CODE: tom owes Sam 20 Euros.]", "t2") == ["Forgotten. I will not mention it again."]
    assert host.answer("[DONE CODE: passpor]", "t3") == ["Done: renew the passport"]
    assert host.texts()[0] == ("fact", "Tom owes Sam 60 euros")


def test_a_task_that_is_finished_again_changes_nothing_and_says_the_same(host: Host) -> None:
    first = "[REMEMBER CODE: The boiler is a Vaillant]\n[GOAL CODE: swim | DEADLINE: when I feel like it]\n[GOAL CODE: paint the kitchen]"
    second = "[DONE CODE: paint the kitchen]\n[FORGET CODE: boiler]\n[DONE CODE: fly to the moon]"
    for text, task in ((first, "t1"), (second, "t2")):
        once = host.answer(text, task)
        before = host.memories.list(SAID), host.forgotten.all()
        assert host.answer(text, task) == once
        assert host.answer(text, task, now=NOW + 50) == once
        assert (host.memories.list(SAID), host.forgotten.all()) == before
    acted = host.acting.on_tags(AnswerTags(Task("t2", SAID, ""), "", parse(second, "CODE").tags, NOW))
    assert acted.forgotten == ["t1:user", "t1:asst", "t2:user", "t2:asst"], "the copies can be taken out again"
    assert len(acted.sentences) == 3
    host.answer("[GOAL CODE: paint the kitchen]", "t3")
    host.answer("[DONE CODE: paint the kitchen]", "t2")
    assert ("goal", "paint the kitchen") in host.texts(), "t2 has had its say"


def test_the_same_task_id_in_another_chat_is_another_task(host: Host) -> None:
    host.answer("[REMEMBER CODE: one]", chat="1")
    host.answer("[REMEMBER CODE: two]", chat="2")
    assert (host.texts("1"), host.texts("2")) == ([("fact", "one")], [("fact", "two")])
    host.answer("[FORGET CODE: one]", "t2", chat="2")
    assert host.texts("1") == [("fact", "one")]


def test_what_is_not_clear_is_asked_and_changes_nothing(host: Host) -> None:
    host.answer(
        "[REMEMBER CODE: the garage door code is 7731]\n[REMEMBER CODE: the cellar door code is 1234]\n[GOAL CODE: learn to swim]"
    )
    before = host.memories.list(SAID)
    (said,) = host.answer("[FORGET CODE: the code]", "t2")
    assert said.startswith("Which one do you mean? ")
    assert "1. the garage door code is 7731" in said
    assert "2. the cellar door code is 1234" in said
    assert host.answer("[FORGET CODE: the dog]\n[DONE CODE: garage code]", "t3") == [
        'I found no memory like "the dog". To hide the messages that say it, send /forget and these words.',
        'I found no goal like "garage code", so nothing was changed.',
    ]
    assert (host.memories.list(SAID), host.forgotten.all()) == (before, [])


def test_what_comes_after_something_forgotten_is_not_taken_for_it(host: Host) -> None:
    """In the same second, and though the forgotten one was the last that had a number."""
    host.answer(
        "[REMEMBER CODE: The car is a Volvo]\n[FORGET CODE: car Volvo]\n[REMEMBER CODE: The car is a brown Saab]"
    )
    assert host.texts() == [("fact", "The car is a brown Saab")]
    (saab,) = host.memories.list(SAID)
    host.answer("[FORGET CODE: brown Saab]", "t2")
    host.answer("[REMEMBER CODE: The boat is blue]", "t3")
    (boat,) = host.memories.list(SAID)
    assert boat.number > saab.number > 1, "a number from an older list never means another memory"


def test_to_forget_is_to_forget_every_turn_that_told_it(host: Host) -> None:
    host.answer("[REMEMBER CODE: The dentist of the user is Dr. Zhukovskaya]", "t1")
    host.answer("[REMEMBER CODE: The dentist of the user is Dr. Zhukovskaya]", "t2")
    host.answer("[GOAL CODE: Buy an engagement ring | DEADLINE: next Friday]", "t3")
    host.answer("[GOAL CODE: Buy an engagement ring | DEADLINE: 31 December]", "t4")
    host.answer("[FORGET CODE: dentist]", "t5")
    host.answer("[FORGET CODE: engagement ring]", "t6")
    dentist, ring = host.forgotten.of(SAID)
    assert dentist.named >= {"t1:user", "t2:user", "t5:user"}
    assert ring.named >= {"t3:user", "t4:user", "t6:user"}


def test_a_deadline_that_is_not_understood_keeps_the_goal_and_says_so(host: Host) -> None:
    for deadline, words in (
        ("the cows come home", 'I saved it without a date: I do not understand the date "the cows come home".'),
        ("31. Februar", 'I saved it without a date: I do not understand the date "31. Februar".'),
        ("2020-12-01", 'I saved it without a date: "2020-12-01" is in the past ('),
    ):
        (said,) = host.answer(f"[GOAL CODE: {deadline} | DEADLINE: {deadline}]", f"t{deadline}")
        assert words in said
    assert [goal.deadline for goal in host.memories.list(SAID)] == [None] * 3


class SlowOllama(OllamaApi):
    """Embeds only while it is let; `asked` is set when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.let, self.asked_for = threading.Event(), threading.Event()
        self.let.set()

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        if not self.let.is_set():
            self.asked_for.set()
            self.let.wait()
        return super().embed(texts, fault)


@pytest.mark.parametrize("given", ["[REMEMBER CODE: {}]", "[FORGET CODE: {}]"])
def test_an_embedder_that_hangs_holds_no_writer_back(tmp_path: Path, given: str) -> None:
    """And what another dispatcher writes meanwhile is seen before anything is written."""
    mishka = "The user has a cat called Mishka"
    ollama = SlowOllama()
    with ollama, closing(DayEmbedder(load_settings(embedder="ollama", ollama_url=ollama.url))) as slow:
        slow.open()
        host = Host(tmp_path, slow)
        host.answer("[REMEMBER CODE: The user drinks tea]\n[GOAL CODE: paint the kitchen]", "t0")
        ollama.let.clear()

        acting = threading.Thread(target=lambda: host.answer(given.format(mishka), "t1"))
        acting.start()
        wait_for(ollama.asked_for.is_set, "the embedder to be asked")
        other = Database(None, tmp_path / "state")
        Memories(other).add(Memory("77", MemoryType.FACT, "theirs", NOW))
        Memories(other).add(Memory(SAID, MemoryType.FACT, mishka, NOW, source_turn="t9:user"))
        ollama.let.set()
        acting.join()
        cats = [one for one in host.memories.list(SAID) if one.text == mishka]
        if "FORGET" in given:
            assert cats == []
            assert host.forgotten.of(SAID)[0].named == {"t9:user", "t9:asst", "t1:user", "t1:asst"}
        else:
            assert [one.importance for one in cats] == [4], "one of them, said twice"
        other.close()
        host.database.close()


def test_what_changes_between_plan_and_write_is_planned_anew(
    host: Host, embedder: DayEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the turns that say it again are looked for, another dispatcher hears it once more."""
    host.answer("[REMEMBER CODE: the garage door code is 7731]")
    other, looked = Host(host.root, embedder), list[str]()

    def repeating(chat: str, text: str) -> list[str]:
        looked.append(text)
        if len(looked) == 1:
            other.answer("[REMEMBER CODE: The garage door code is 7731]", "t5")
        return []

    monkeypatch.setattr(host, "repeating", repeating)
    assert host.acting.forget(Task("t2", SAID, ""), 1, NOW).forgotten == (
        "t1:user", "t1:asst", "t5:user", "t5:asst", "t2:user", "t2:asst",
    )  # fmt: skip
    assert (len(looked), host.memories.list(SAID)) == (2, [])
    assert [stone.named for stone in host.forgotten.of(SAID)] == [
        {"t1:user", "t1:asst", "t5:user", "t5:asst", "t2:user", "t2:asst"}
    ], "nothing of the first plan was written"
    other.database.close()


def test_many_dispatchers_that_hear_the_same_keep_it_once(stores: Stores, tmp_path: Path) -> None:
    blind = DayEmbedder(load_settings(embedder="none"))
    hosts = [Host(tmp_path, blind, given=stores.open()) for _ in range(4)]

    def hear(number: int) -> list[str]:
        for task in range(5):
            hosts[number].answer("[REMEMBER CODE: The boiler is a Vaillant]", f"t{number}-{task}")
        return hosts[number].answer("[REMEMBER CODE: The boiler is a Vaillant]", "same")

    assert at_once(hear, len(hosts)) == [[]] * 4
    (boiler,) = hosts[0].memories.list(SAID)
    told = {f"t{number}-{task}:user" for number in range(4) for task in range(5)} | {"same:user"}
    assert set(boiler.sources) == told
    assert (boiler.number, boiler.importance, boiler.access_count) == (1, 5, 20)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_death_while_something_is_forgotten(host: Host, embedder: DayEmbedder, dies: str) -> None:
    """Before the tombstone nothing has happened; after it the fact is out of sight, and the task's next worker finishes."""
    host.answer("[REMEMBER CODE: the garage door code is 7731]\n[REMEMBER CODE: The user likes tea]")
    host.forgotten.dies = dies
    with suppress(Dies):
        host.answer("[FORGET CODE: garage code]", "t2")
        pytest.fail("it lived")
    host.database.close()
    after = Host(host.root, embedder)
    shown = [text for _, text in after.texts()]
    assert shown == (
        ["The user likes tea"] if dies == "after" else ["the garage door code is 7731", "The user likes tea"]
    )
    assert after.memories.count(SAID) == 2, "the transaction was rolled back"
    assert bool(after.forgotten.of(SAID)) == (dies == "after")
    assert after.answer("[FORGET CODE: garage code]", "t2") == ["Forgotten. I will not mention it again."]
    assert [memory.text for memory in after.memories.list(SAID)] == ["The user likes tea"]
    assert len(after.forgotten.of(SAID)) == 1
    after.database.close()


def test_what_the_owner_commands_is_done_once_for_each_task(host: Host) -> None:
    def task(name: str) -> Task:
        return Task(name, SAID, "")

    for _ in range(2):
        assert host.acting.add(task("a"), "likes tea", NOW) == Outcome("Saved as number 1: likes tea")
        host.acting.add(task("b"), "swim", NOW, kind="goal", deadline=NOW + DAY, importance=5)
        assert host.acting.done(task("c"), 2, NOW).say == "Done: swim"
        assert host.acting.forget(task("d"), 1, NOW).forgotten == ("d:user", "d:asst")
    assert host.acting.done(task("e"), 2, NOW).say == "There is no open goal number 2."
    assert [memory.text for memory in host.memories.list(SAID)] == ["swim"]


def test_tags_that_cannot_be_read_are_refused() -> None:
    given = AnswerTags(
        Task("t1", SAID, ""), "s", [*parse("[GOAL CODE: swim | PRIORITY: 2]", "CODE").tags], NOW, shown=None
    )
    record = loads_object(given.to_json())
    assert AnswerTags.parse(record) == given
    changes: list[dict[str, Any]] = [
        {"task_id": "a:b"}, {"chat_id": None}, {"said_at": "now"}, {"tags": [{"number": 1, "kind": "LEARN", "text": "x"}]}, {"tags": [{}]},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises((RecordRefused, KeyError, ValueError)):
            AnswerTags.parse(record | change)
