"""Typed memories with the shipped model: what repeats another, what bears on a message, which one a search text means, and in whose chat."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.tombstones import Forgotten
from dispatcher.memory.typed.memories import Remembering
from shared.config.settings import load_settings
from shared.turns.records import Tombstone

NOW = 1_800_000_000.0
DAY = 86_400.0
FACT, GOAL, PREFERENCE = MemoryType.FACT, MemoryType.GOAL, MemoryType.PREFERENCE
MISHKA = "The user has a cat called Mishka"


@pytest.fixture
def kept(store: Memories, embedder: DayEmbedder) -> Remembering:
    return Remembering(store, embedder)


@pytest.fixture
def blind(store: Memories) -> Remembering:
    """Without an embedder."""
    return Remembering(store, DayEmbedder(load_settings(embedder="none")))


def add(kept: Remembering, *texts: str, chat: str = "1", kind: MemoryType = FACT, **more: Any) -> list[Memory]:
    return [kept.add(chat, kind, text, now=more.pop("now", NOW), **more)[0] for text in texts]


def texts(kept: Remembering, chat: str = "1") -> list[str]:
    return [memory.text for memory in kept.of_chat(chat).memories]


@pytest.mark.parametrize(("one", "other"), [
    (MISHKA, "The user has a cat named Mishka"),
    ("The user lives in Ghent", "the user lives in  GHENT!"),
])  # fmt: skip
def test_what_says_the_same_reinforces_the_old_one(kept: Remembering, store: Memories, one: str, other: str) -> None:
    (first,) = add(kept, one)
    same, new = kept.add("1", FACT, other, now=NOW + DAY)
    assert (same.memory_id, new) == (first.memory_id, False)
    (now,) = store.list("1")
    assert (now.text, now.importance, now.access_count, now.last_accessed) == (one, 4, 1, NOW + DAY)


def test_only_one_of_its_own_type_and_chat_is_repeated(kept: Remembering) -> None:
    add(kept, "swim every week")
    for chat, kind in (("1", GOAL), ("2", FACT), ("1", PREFERENCE)):
        assert kept.add(chat, kind, "swim every week", now=NOW)[1]
    assert (len(texts(kept)), len(texts(kept, "2"))) == (3, 1)


def test_a_goal_with_another_deadline_takes_the_place_of_the_old_one(kept: Remembering, store: Memories) -> None:
    add(kept, "finish the tax return", kind=GOAL, deadline=NOW + DAY)
    kept.add("1", GOAL, "Finish the tax return", now=NOW + 1)
    assert [goal.deadline for goal in store.list("1")] == [NOW + DAY], "no deadline is no news"
    (goal,) = add(kept, "finish the tax return", kind=GOAL, deadline=NOW + 2 * DAY)
    assert [one.number for one in store.list("1")] == [goal.number]
    assert (goal.deadline, goal.importance, goal.access_count, goal.reminded_at) == (NOW + 2 * DAY, 5, 2, None)


def test_what_bears_on_a_message_comes_first_and_counts_as_accessed(kept: Remembering, store: Memories) -> None:
    add(kept, "The boiler is a Vaillant ecoTEC", "The heating was serviced in May", MISHKA, "The user banks with Argenta")  # fmt: skip
    found = kept.relevant(kept.of_chat("1"), "the boiler shows an error, the heating is cold", 2, now=NOW)
    store.touch("1", [memory.memory_id for memory in found], NOW)
    assert [memory.text for memory in found][:1] == ["The boiler is a Vaillant ecoTEC"]
    assert MISHKA not in [memory.text for memory in found]
    counted = {memory.text: (memory.access_count, memory.last_accessed) for memory in store.list("1")}
    assert counted["The boiler is a Vaillant ecoTEC"] == (1, NOW)
    assert counted[MISHKA] == (0, None)
    kept.relevant(kept.of_chat("1"), "the boiler again", 2, now=NOW + 1)
    assert {memory.access_count for memory in store.list("1")} <= {0, 1}, "a look does not count"
    assert kept.relevant(kept.of_chat("1"), "tell me a joke", 5, now=NOW) == []
    boiler = found[0].memory_id
    assert boiler not in [
        memory.memory_id for memory in kept.relevant(kept.of_chat("1"), "the boiler", 5, now=NOW, shown=[boiler])
    ]


def test_what_is_shown_is_counted_beside_the_answer_and_before_the_end(tmp_path: Path) -> None:
    """A writer who holds the store holds up no answer."""
    some = load_settings(
        embedder="local", hmem_state_dir=tmp_path / "state", memory_tokens=200, memory_deadline_ms=20_000
    )

    request = PromptRequest("1", "the wifi password of the cottage")

    def counted(day: DayMemory) -> dict[str, int]:
        return {one.text: one.access_count for one in day.memories.list("1") if one.access_count}

    with closing(DayMemory(some, nullcontext)) as day:
        day.embedder.open()
        add(day.remembering, "The wifi password at the cottage is heron-4711", now=NOW)
        add(day.remembering, *(f"The user once saw {n} herons at the harbour" for n in range(20)), now=NOW + 1)
        with day.memories.transaction():
            shown = day.context(request, day.settings)
            assert ("heron-4711" in shown.facts, shown.degraded) == (True, [])
            assert counted(day) == {}
            look = day.context(replace(request, count_access=False), day.settings)
            assert look.facts == shown.facts
    with closing(DayMemory(some, nullcontext)) as day:
        assert counted(day)["The wifi password at the cottage is heron-4711"] == 1
    with closing(DayEmbedder(some)) as closed:
        closed.open()
        assert closed.query("words") is not None
        assert closed.dimensions == 384
    assert (closed.query("words"), closed.model, closed.dimensions) == (None, None, 0)


def test_without_an_embedder_words_alone_do(blind: Remembering, store: Memories) -> None:
    add(blind, MISHKA, "The user lives in Ghent")
    assert blind.add("1", FACT, "the user has a cat called mishka", now=NOW)[1] is False
    assert [m.text for m in blind.relevant(blind.of_chat("1"), "does Mishka like the castle?", 5, now=NOW)] == [MISHKA]
    assert blind.relevant(blind.of_chat("1"), "good morning, and thanks!", 5, now=NOW) == []
    assert [m.text for m in blind.match("1", "cat Mishka").memories] == [MISHKA]
    assert blind.match("1", "learn to feed the cat properly").memories == [], (
        "one word of three is too little to act on"
    )
    assert blind.embed_missing(10) == 0
    assert all(memory.embedding is None for memory in store.list("1"))


def test_vectors_are_filled_in_later(blind: Remembering, kept: Remembering, store: Memories) -> None:
    add(blind, MISHKA, "The user lives in Ghent")
    add(blind, "The user plays the cello", chat="2")
    assert kept.relevant(kept.of_chat("1"), "what does my cat eat?", 5, now=NOW) == []
    assert (kept.embed_missing(2), kept.embed_missing(10), kept.embed_missing(10)) == (2, 1, 0)
    assert {memory.embedding_model for chat in "12" for memory in store.list(chat)} == {kept._embedder.model}
    assert [m.text for m in kept.relevant(kept.of_chat("1"), "what does my cat eat?", 5, now=NOW)] == [MISHKA]


def test_vectors_of_another_model_are_never_compared(kept: Remembering, store: Memories) -> None:
    (memory,) = add(kept, MISHKA)
    store.change("1", memory.memory_id, None, embedding=b"\0" * 8, embedding_model="another/2")
    assert kept.relevant(kept.of_chat("1"), "what does my pet eat?", 5, now=NOW) == []
    assert [m.text for m in kept.relevant(kept.of_chat("1"), "my cat Mishka", 5, now=NOW)] == [MISHKA], "by its words"
    assert kept.match("1", "cat Mishka").clear, "by its words"
    assert kept.embed_missing(10) == 1


#: A search text, among which kinds, and what it means.
SEARCHES: list[tuple[str, set[str], list[str]]] = [
    ("taxes", {"goal", "fact"}, ["finish the tax return"]),
    ("the race in Bruges", {"goal"}, ["run the half marathon of Bruges"]),
    ("garage code", {"goal", "fact"}, ["the garage door code is 7731"]),
    ("the code", {"goal", "fact"}, ["the cellar door code is 1234", "the garage door code is 7731"]),
    ("garage code", {"goal"}, []),
    ("the dog's vaccination", {"goal", "fact"}, []),
    ("", {"goal", "fact"}, []),
]


def test_a_search_text_means_one_several_or_none(kept: Remembering) -> None:
    add(kept, "finish the tax return", "run the half marathon of Bruges", kind=GOAL)
    add(kept, "the garage door code is 7731", "the cellar door code is 1234", "the user likes short walks")
    for asked, kinds, meant in SEARCHES:
        match = kept.match("1", asked, lambda one: one.type in kinds)  # noqa: B023 - called at once
        assert sorted(memory.text for memory in match.memories) == meant, asked
        assert match.clear == (len(meant) == 1), asked


def test_a_forgotten_memory_is_out_of_sight_before_it_is_removed(
    store: Memories, embedder: DayEmbedder, tmp_path: Path
) -> None:
    """Its tombstone stands, and whoever set it died."""
    forgotten = Forgotten(tmp_path / "state")
    kept = Remembering(store, embedder, forgotten)
    cat, ghent = add(kept, MISHKA, "The user lives in Ghent")
    assert len(kept.of_chat("1").memories) == 2
    stone = Tombstone(f"f1-{cat.uid}-task", "1", NOW + 1, turn_ids=frozenset({"task:user"}))
    forgotten.add(replace(stone, chat_id="2"))
    assert len(kept.of_chat("1").memories) == 2, "another chat's tombstone"
    forgotten.add(replace(stone, tombstone_id=f"f2-{cat.uid}-task"))
    assert [memory.memory_id for memory in kept.of_chat("1").memories] == [ghent.memory_id]
    assert kept.relevant(kept.of_chat("1"), "my cat Mishka", 5, now=NOW) == []
    assert [memory.memory_id for memory in kept.match("1", "cat Mishka").memories] == [cat.memory_id], "to be removed"
    told, new = kept.add("1", FACT, MISHKA, now=NOW + 100)
    assert new
    assert told.memory_id in [memory.memory_id for memory in kept.of_chat("1").memories], "said anew after that"


def test_a_file_of_facts_holds_each_once(kept: Remembering) -> None:
    add(kept, MISHKA)
    listed = [
        f"{MISHKA}!",
        "The user has a cat named Mishka",
        "The user lives in Ghent",
        "the user lives in ghent",
        "The code is 7731",
        "The code is 7732",
    ]
    made = kept.new_ones("1", FACT, [(text, NOW - 5, {"importance": 4}) for text in listed])
    assert [memory.text for memory in made] == ["The user lives in Ghent", "The code is 7731", "The code is 7732"]
    assert {(memory.created, memory.embedding is None, memory.importance) for memory in made} == {(NOW - 5, False, 4)}
    assert texts(kept) == [MISHKA], "nothing is stored yet"
