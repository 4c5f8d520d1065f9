"""Any history of releases: each has exactly its corpus, whatever came before it and was removed since."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis

from shared.config.settings import Settings
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served
from shared.vectors.redis import sets
from shared.vectors.redis.index import connected
from shared.wire.client import COMMAND
from tests.support.night.index_world import vector_of

#: Of a chat: (number of the chunk, version of its text), in the order in which they were said.
_SAID = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=6, unique_by=lambda one: one[0])
_CORPORA = st.dictionaries(st.sampled_from(["1", "-2", "a\x00\\b"]), _SAID)
#: A release, and which of those that stand then are removed.
_HISTORY = st.lists(st.tuples(_CORPORA, st.sets(st.integers(0, 7))), min_size=1, max_size=7)


def corpus_of(said: dict[str, list[tuple[int, int]]]) -> Corpus:
    chats = {}
    for chat, chunks in said.items():
        if chunks:
            texts = [f"{chat} {number} {version}" for number, version in chunks]
            chats[chat] = ([f"c{number}" for number, _ in chunks], np.array([vector_of(text) for text in texts]))
    return Corpus(chats)


def content(client: Redis, name: str) -> dict[str, dict[str, float]]:
    """Chat → chunk → its cosine to one vector, as a search for all finds them."""
    asked = vector_of("a question")
    chats = sets.chats_of(client, name)
    found = {chat: sets.scored(client, name, chat, asked) for chat in chats}
    assert all(len(dict(pairs)) == len(pairs) for pairs in found.values())
    return {chat: {one: round(score, 4) for one, score in pairs} for chat, pairs in found.items()}


def wanted(corpus: Corpus) -> dict[str, dict[str, Any]]:
    asked = vector_of("a question")
    return {
        chat: {one: round(float(vector @ asked), 4) for one, vector in zip(ids, vectors, strict=True)}
        for chat, (ids, vectors) in corpus.chats.items()
    }


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "PART_ROWS", 4)
    monkeypatch.setattr(sets, "LEAST_ROWS", 1)


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=_HISTORY)
def test_each_release_has_its_corpus(
    settings: Settings,
    looking: Redis,
    small_parts: None,
    history: list[tuple[dict[str, list[tuple[int, int]]], set[int]]],
) -> None:
    client, standing = connected(settings, COMMAND), dict[str, Corpus]()
    try:
        for run, (said, removed) in enumerate(history, 1):
            corpus = corpus_of(said)
            name = f"hmem-{run}-{secrets.token_hex(4)}"
            sets.put(client, Served(name, len(corpus), corpus.dimensions), corpus)
            standing[name] = corpus
            gone = [one for number, one in enumerate(standing) if number in removed]
            sets.remove(client, gone)
            for one in gone:
                del standing[one]
            for one, its in standing.items():
                assert content(client, one) == wanted(its)
            listed = {
                part.key(chat)
                for one in standing
                for chat, parts in sets.chats_of(client, one).items()
                for part in parts
            }
            assert set(looking.scan_iter(match="hcli:mem:vectors:part:*")) == listed, (
                "nothing is left of what was removed"
            )
    finally:
        client.close()
        looking.flushall()
