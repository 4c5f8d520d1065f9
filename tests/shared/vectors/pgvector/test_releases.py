"""Any history of releases: each has exactly its corpus, whatever came before it and was removed since."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pgvector import HalfVector

from shared.config.settings import Settings
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served
from shared.vectors.pgvector import tables
from shared.vectors.pgvector.server import connected, schema_of
from tests.support.night.index_world import vector_of

if TYPE_CHECKING:
    from shared.vectors.pgvector.server import Connection

#: Of a chat: (number of the chunk, version of its text), in the order in which they were said.
_SAID = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=6, unique_by=lambda one: one[0])
_CORPORA = st.dictionaries(st.sampled_from(["1", "-2", "a\x00\\b"]), _SAID)
#: A release, and which of those that stand then are removed.
_HISTORY = st.lists(st.tuples(_CORPORA, st.sets(st.integers(0, 7))), min_size=1, max_size=7)


def corpus_of(said: dict[str, list[tuple[int, int]]]) -> Corpus:
    chats, said_at = {}, {}
    for chat, chunks in said.items():
        if chunks:
            texts = [f"{chat} {number} {version}" for number, version in chunks]
            chats[chat] = ([f"c{number}" for number, _ in chunks], np.array([vector_of(text) for text in texts]))
            said_at[chat] = [float(number) for number, _ in chunks]
    return Corpus(chats, {}, said_at)


def content(connection: Connection, served: Served) -> dict[tuple[str, str], tuple[float, HalfVector]]:
    release = tables.release_id(connection, served)
    assert release is not None
    query = f"SELECT chat, chunk_id, said_at, embedding FROM rows WHERE {tables._OF}"
    found = connection.execute(query.encode(), {"release": release}).fetchall()
    made = {(tables.from_text(chat), chunk): (said_at, vector) for chat, chunk, said_at, vector in found}
    assert len(made) == len(found) == tables.listed(connection, release), "no row twice"
    return made


def wanted(corpus: Corpus) -> dict[tuple[str, str], tuple[float, HalfVector]]:
    return {
        (chat, one): (corpus.said_at[chat][row], HalfVector(vectors[row]))
        for chat, (ids, vectors) in corpus.chats.items()
        for row, one in enumerate(ids)
    }


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=_HISTORY)
def test_each_release_has_its_corpus(
    settings: Settings, history: list[tuple[dict[str, list[tuple[int, int]]], set[int]]]
) -> None:
    with connected(settings, 30) as connection:
        standing: dict[str, tuple[Served, Corpus]] = {}
        for said, removed in history:
            corpus = corpus_of(said)
            served = Served(secrets.token_hex(4), len(corpus), corpus.dimensions)
            tables.put(connection, schema_of(settings), served, corpus)
            standing[served.name] = served, corpus
            gone = [name for number, name in enumerate(standing) if number in removed]
            tables.remove(connection, gone.__contains__)
            for name in gone:
                del standing[name]
            for one, its in standing.values():
                assert content(connection, one) == wanted(its)
            nobodys = "NOT EXISTS (SELECT 1 FROM releases s WHERE s.id >= since AND (until IS NULL OR s.id < until))"
            for table in ("rows", "chats"):
                left = connection.execute(f"SELECT count(*) FROM {table} WHERE {nobodys}".encode()).fetchone()
                assert left == (0,), "nothing is left of what was removed"
        tables.remove(connection, standing.__contains__)
