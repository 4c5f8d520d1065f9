"""Near duplicates: 60 pairs of facts, half of them by somebody who had not seen the code, and pairs that vectors cannot tell apart.

tests/data/fact_pairs.jsonl: what repeats, what corrects, what is another fact. No pair that says something else may be joined; what repeats is joined
only where it is certain, and is named otherwise.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.memories import Memories, MemoryType
from dispatcher.memory.typed.duplicates import same_details
from dispatcher.memory.typed.memories import Remembering
from shared.config.settings import load_settings
from tests.support.world import REPOSITORY

NOW = 1_800_000_000.0
PAIRS: list[dict[str, Any]] = [
    json.loads(line) for line in (REPOSITORY / "tests" / "data" / "fact_pairs.jsonl").read_text("utf-8").splitlines()
]
#: What is like another fact, and is not it.
TWO = [
    ("The user is a father", "The user has a father"),
    ("The meeting is before lunch", "The meeting is after lunch"),
    ("Tom owes Anna 50 euros", "Anna owes Tom 50 euros"),
    ("The dog bit the cat", "The cat bit the dog"),
    ("My brother's boss is ill", "My boss's brother is ill"),
    ("The user likes tea", "The user likes tea with milk"),
    ("The user takes bus 7 to work", "The user takes bus 9 to work"),
    ("The user has two cats", "The user has three cats"),
    ("Mina likes tea", "Mona likes tea"),
    ("The user does not eat pork", "The user does not eat beef"),
    ("The user eats meat", "The user does not eat meat"),
    ("Ich mag Rotwein", "Ich mag Weißwein"),
    ("Встреча в понедельник", "Встреча во вторник"),
    ("Le code du garage est 7731", "Le code du garage est 7732"),
]
ONE = [
    ("The user has a cat called Mishka", "The user has a cat named Mishka"),
    ("the NAS heron is a Synology DS920+ with four 8 TB disks", "heron, the NAS, is a Synology DS920+ that has four 8 TB disks"),
    ("The router is a FritzBox.", "the router is a FRITZ!Box"),
]  # fmt: skip


@pytest.mark.parametrize("model", ["all-minilm", "multilingual-e5-small"])
def test_what_says_something_else_is_never_joined(store: Memories, model: str) -> None:
    settings = load_settings(embedder="local", embed_model=model)
    embedder = DayEmbedder(settings)
    embedder.open()
    kept, joined = Remembering(store, embedder), set[str]()
    given = [(one["first"], one["second"], one["type"], one["relation"]) for one in PAIRS]
    given += [(*pair, "fact", "different") for pair in TWO] + [(*pair, "fact", "same") for pair in ONE]
    for number, (first, second, kind, relation) in enumerate(given):
        chat = f"{model}-{number}"
        for at, text in enumerate((first, second)):
            kept.add(chat, MemoryType(kind), text, now=NOW + at)
        held = kept.of_chat(chat)
        assert sorted(text for memory in held.every for text in memory.texts) == sorted({first, second}), (
            "nothing is lost"
        )
        assert not held.superseded, "nothing replaces what nobody says it replaces"
        if len(held.memories) == 1:
            assert relation == "same", (first, second)
            joined.add(first)
    embedder.close()
    assert joined >= {first for first, _ in ONE[:2]}


@pytest.mark.parametrize("pair", ONE)
def test_the_same_details(pair: tuple[str, str]) -> None:
    assert same_details(*pair)


@pytest.mark.parametrize("pair", [("Tom owes Anna 50 euros", "Anna owes Tom 50 euros"), *TWO[6:9], TWO[10], *TWO[-2:]])
def test_other_details(pair: tuple[str, str]) -> None:
    assert not same_details(*pair)
