"""Near duplicates: 60 pairs of facts, half of them by somebody who had not seen the code, and pairs that vectors cannot tell apart.

tests/data/fact_pairs.jsonl: what repeats, what corrects, what is another fact. No pair that says something else may be joined; what repeats is joined
only where it is certain, and is named otherwise.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.memory.typed.duplicates import judged, same_details
from shared.config.settings import load_settings
from tests.support.world import REPOSITORY

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
def test_what_says_something_else_is_never_joined(model: str) -> None:
    given = [(one["first"], one["second"], one["relation"]) for one in PAIRS]
    given += [(*pair, "different") for pair in TWO] + [(*pair, "same") for pair in ONE]
    joined = set[str]()
    with closing(DayEmbedder(load_settings(embedder="local", embed_model=model))) as embedder:
        embedder.open()
        made = iter(embedder.statements([text for one in given for text in one[:2]]))
        for (first, second, relation), known, new in zip(given, made, made, strict=True):
            assert known is not None
            memory = Memory("1", MemoryType.FACT, first, 1.0)
            if judged([memory], known[None], second, new, embedder.family).same:
                assert relation == "same", (first, second)
                joined.add(first)
    assert joined >= {first for first, _ in ONE[:2]}


def test_names_numbers_order_and_denials_are_details() -> None:
    assert all(same_details(*pair) for pair in ONE)
    assert not any(same_details(*pair) for pair in [TWO[2], *TWO[6:9], TWO[10], *TWO[-2:]])
