"""Qdrant beside the contract (test_every_index.py): what goes over the wire, and what happens when the server does not do its part.

Where a test needs no fault and no log of requests it runs against the server that HMEM_TEST_QDRANT_URL names, if there is one.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client.http import models

from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.release.manifest import QDRANT
from shared.vectors import on_server, searching
from shared.vectors.on_server import Served, read_served
from shared.vectors.qdrant import index as qdrant
from shared.vectors.qdrant import server as qdrant_server
from shared.vectors.qdrant.index import QdrantBackend, QdrantBuilder, channel_of, ensure, payload_of, point_id
from tests.servers.qdrant_api import QdrantApi, qdrant_settings
from tests.support.machine import slowness
from tests.support.night.index_world import DIMENSIONS, MadeUp, corpus_of, ids, make_release, notes, opened, vector_of

KEY = "s3cret-key"
SAID = {"1": notes("1", 120), "-100": notes("-100", 60), "anna": notes("anna", 3)}
CORPUS = corpus_of(SAID)
FAULTS = ["drop", "lost", "hang", "500", "429", "html", "redirect", "nothing"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits and pauses; the client counts in whole seconds."""
    monkeypatch.setattr(on_server, "DAY_SECONDS", slowness())
    monkeypatch.setattr(on_server, "NIGHT_SECONDS", slowness())
    monkeypatch.setattr(qdrant_server, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(qdrant, "LOOK_SECONDS", 0.001)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()
    monkeypatch.setattr(searching, "open_embedder", lambda settings: made)
    return made


@pytest.fixture
def api() -> Iterator[QdrantApi]:
    with QdrantApi(KEY) as running:
        yield running


@pytest.fixture
def ours(api: QdrantApi, tmp_path: Path) -> Settings:
    """Settings for the stand-in, with its key."""
    return load_settings(qdrant_url=api.url, qdrant_api_key=KEY, hmem_state_dir=tmp_path / "state")


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings for the stand-in or a real server."""
    with qdrant_settings() as overrides:
        yield load_settings(hmem_state_dir=tmp_path / "state", **overrides)


@contextmanager
def looking(settings: Settings) -> Iterator[QdrantClient]:
    """A client of a test's own."""
    with closing(qdrant_server.client_of(settings, 10)) as client:
        yield client


def built(settings: Settings, place: Path, run: int = 1) -> Served:
    builder = QdrantBuilder(settings, run)
    builder.build(place, CORPUS)
    return read_served(place)


# ------------------------------------------------------------------------------------------------------------ on the wire


def test_the_collection_and_its_indexes_are_made_before_the_first_point(
    api: QdrantApi, ours: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant, "REQUEST_BYTES", 50_000)
    served = built(ours, tmp_path / QDRANT, 17)
    assert served.name.startswith("hmem-17-")
    assert (served.vectors, served.dimensions) == (183, DIMENSIONS)
    writing = [(method, path.removeprefix(f"/collections/{served.name}")) for method, path, _ in api.requests if method != "GET"]  # fmt: skip
    assert writing[:4] == [("PUT", ""), *[("PUT", "/index")] * 3]
    assert set(writing[4:]) == {("PUT", "/points")}
    assert api.asked(f"/collections/{served.name}")[0] == {
        "vectors": {"size": DIMENSIONS, "distance": "Cosine", "on_disk": True},
        "hnsw_config": {"m": 0, "payload_m": 16},
    }
    assert {one["field_name"]: one["field_schema"] for one in api.asked("/index")} == {
        "chat_id": {"type": "keyword", "is_tenant": True},
        "channel": {"type": "keyword", "enable_hnsw": False},
        "said_at": {"type": "float", "enable_hnsw": False},
    }
    sent = [body["batch"] for body in api.asked("/points")]
    assert len(sent) > 2
    assert max(len(json.dumps(body)) for body in api.asked("/points")) <= 50_000
    points = {id_: payload for batch in sent for id_, payload in zip(batch["ids"], batch["payloads"], strict=True)}
    assert points[point_id("-100", "-100/7")] == {
        "chat_id": "-100",
        "chunk_id": "-100/7",
        "channel": "group",
        "said_at": 7.0,
    }
    assert len(points) == 183


def test_an_alias_follows_in_one_request_there_and_back(
    api: QdrantApi, ours: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = built(ours, tmp_path / "1.json"), built(ours, tmp_path / "2.json", 2)
    for place, served in (("1.json", first), ("2.json", second), ("2.json", second), ("1.json", first)):
        api.requests.clear()
        QdrantBuilder(ours, 2).follow(tmp_path / place)
        assert api.aliases == {"hmem": served.name}
        assert [(method, path) for method, path, _ in api.requests] == [("POST", "/collections/aliases")]
        assert [next(iter(action)) for action in api.requests[0][2]["actions"]] == ["delete_alias", "create_alias"]
    api.faults = ["lost"]
    QdrantBuilder(ours, 2).follow(tmp_path / "2.json")
    assert api.aliases == {"hmem": second.name}
    del api.collections[first.name]
    with pytest.raises(IndexServerUnavailable, match=rf"404, Not found: Collection `{first.name}` doesn't exist"):
        QdrantBuilder(ours, 2).follow(tmp_path / "1.json")
    assert api.aliases == {"hmem": second.name}


def test_another_program_asks_the_index_by_its_alias(settings: Settings, tmp_path: Path) -> None:
    built(settings, tmp_path / QDRANT)
    QdrantBuilder(settings, 1).follow(tmp_path / QDRANT)
    with looking(settings) as client:
        chat = models.Filter(must=[models.FieldCondition(key="chat_id", match=models.MatchValue(value="1"))])
        found = client.query_points(settings.index_name, vector_of("note 7 of 1").tolist(), query_filter=chat, limit=1)
    assert found.points[0].payload == payload_of("1", "1/7", 7.0)


def test_ids_are_told_apart_and_chats_are_sorted_by_kind() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a\x00b", "c"), ("a", "\x00bc"), ("1:", "a"), ("1", ":a")]  # fmt: skip
    assert len({point_id(*pair) for pair in pairs}) == len(pairs)
    assert point_id("9912", "t1:user#1") == "6058ea0d-1258-51d1-8a8e-99263c556872", "the ids of what is stored"
    kinds = {"9912": "private", "-100123": "group", "01": "private"} | dict.fromkeys(
        ["", "-", "1 ", "1\n", "١"], "other"
    )
    assert {chat: channel_of(chat) for chat in kinds} == kinds


# ------------------------------------------------------------------------------------------------------------------ ensure


def test_ensure_asked_again_changes_nothing(api: QdrantApi, ours: Settings) -> None:
    with looking(ours) as client:
        ensure(client, "hmem-1-aaaaaaaa", 32)
        before, api.requests[:] = str(api.collections), []
        ensure(client, "hmem-1-aaaaaaaa", 32)
    assert str(api.collections) == before
    assert {method for method, *_ in api.requests} == {"GET"}


def test_ensure_completes_what_an_attempt_has_begun(settings: Settings) -> None:
    whole, half = f"{settings.index_name}-1-aaaaaaaa", f"{settings.index_name}-1-bbbbbbbb"
    with looking(settings) as client:
        ensure(client, whole, 32)
        size = models.VectorParams(size=32, distance=models.Distance.COSINE)
        client.create_collection(half, vectors_config=size)
        keyword = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        client.create_payload_index(half, "chat_id", field_schema=keyword)
        ensure(client, half, 32)
        kinds = [
            {field: index.data_type for field, index in client.get_collection(name).payload_schema.items()}
            for name in (whole, half)
        ]
    assert kinds[0] == kinds[1] == {"chat_id": "keyword", "channel": "keyword", "said_at": "float"}


@pytest.mark.parametrize(
    ("size", "distance", "said_at", "why"),
    [
        (31, models.Distance.COSINE, None, "holds vectors of 31 dimensions, compared by Cosine; 32 and Cosine"),
        (32, models.Distance.EUCLID, None, "holds vectors of 32 dimensions, compared by Euclid"),
        (32, models.Distance.COSINE, models.KeywordIndexType.KEYWORD, "an index of another kind on said_at"),
    ],
)
def test_ensure_keeps_nothing_that_differs(
    settings: Settings, size: int, distance: models.Distance, said_at: models.KeywordIndexType | None, why: str
) -> None:
    name = f"{settings.index_name}-1-aaaaaaaa"
    with looking(settings) as client:
        client.create_collection(name, vectors_config=models.VectorParams(size=size, distance=distance))
        if said_at:
            client.create_payload_index(name, "said_at", field_schema=models.KeywordIndexParams(type=said_at))
        with pytest.raises(ReleaseRefused, match=why):
            ensure(client, name, 32)


def test_a_corpus_of_nothing_has_a_collection_too(settings: Settings, tmp_path: Path, embedder: MadeUp) -> None:
    found = opened(settings, make_release(settings, tmp_path, ["qdrant"], {}), "qdrant")
    assert found.is_available()
    assert found.search("anything", "1", 5) == []
    with looking(settings) as client:
        (name,) = [one.name for one in client.get_collections().collections if one.name.startswith(settings.index_name)]
        vectors = client.get_collection(name).config.params.vectors
        assert isinstance(vectors, models.VectorParams)
        assert vectors.size == 1
    found.close()


# --------------------------------------------------------------------------------------------------------------- the proof


def _lose(client: QdrantClient, name: str) -> None:
    """A collection of the same name without one of the points."""
    client.delete_collection(name)
    ensure(client, name, DIMENSIONS)
    chats = {**CORPUS.chats, "1": (CORPUS.chats["1"][0][1:], CORPUS.chats["1"][1][1:])}
    for batch in qdrant._batches(replace(CORPUS, chats=chats, said_at={})):
        client.upsert(name, batch, wait=True)


def _put(client: QdrantClient, name: str, id_: str, text: str, payload: dict[str, Any]) -> None:
    batch = models.Batch(ids=[id_], vectors=[vector_of(text).tolist()], payloads=[payload])
    client.upsert(name, batch, wait=True)


FIRST = point_id("1", "1/0")
DAMAGE: dict[str, tuple[Callable[[QdrantClient, str], None], str]] = {
    "a point is missing": (_lose, "holds 119 of 120 vectors of a chat"),
    "a stranger's point": (
        lambda client, name: _put(client, name, point_id("2", "2/0"), "x", payload_of("2", "2/0", 0.0)),
        "holds 184 vectors, 183 were given",
    ),
    "one too many": (
        lambda client, name: _put(client, name, point_id("1", "1/x"), "x", payload_of("1", "1/x", 0.0)),
        "holds 121 of 120 vectors of a chat",
    ),
    "another vector": (
        lambda client, name: _put(client, name, FIRST, "something else", payload_of("1", "1/0", 0.0)),
        "does not find the vector of chunk 1/0",
    ),
    "another chunk": (
        lambda client, name: _put(client, name, FIRST, "note 0 of 1", payload_of("1", "1/1", 0.0)),
        "has chunk 1/0 under another name",
    ),
    "another time": (
        lambda client, name: _put(client, name, FIRST, "note 0 of 1", payload_of("1", "1/0", 5.0)),
        "has chunk 1/0 under another name",
    ),
    "another channel": (
        lambda client, name: _put(client, name, FIRST, "note 0 of 1", payload_of("1", "1/0", 0.0) | {"channel": "?"}),
        "has chunk 1/0 under another name",
    ),
    "no collection": (lambda client, name: _delete(client, name), "404, Not found: Collection"),
}


def _delete(client: QdrantClient, name: str) -> None:
    client.delete_collection(name)


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_proof_finds_what_is_wrong(settings: Settings, tmp_path: Path, damage: str) -> None:
    served, builder = built(settings, tmp_path / QDRANT), QdrantBuilder(settings, 1)
    checked = builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    assert (checked.vectors, checked.unreached) == ({"1": 120, "-100": 60, "anna": 3}, 0)
    harm, why = DAMAGE[damage]
    with looking(settings) as client:
        harm(client, served.name)
    with pytest.raises((ReleaseRefused, IndexServerUnavailable), match=why):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)


def test_an_index_of_other_vectors_is_not_proven(settings: Settings, tmp_path: Path) -> None:
    built(settings, tmp_path / QDRANT)
    with pytest.raises(ReleaseRefused, match="written for other vectors"):
        QdrantBuilder(settings, 1).check(tmp_path / QDRANT, tmp_path / "scratch", corpus_of({"1": notes("1", 5)}))


def test_what_is_stored_and_not_reached_is_counted(api: QdrantApi, ours: Settings, tmp_path: Path) -> None:
    """HNSW may miss one in a crowd; the exact search has it."""
    some, search, builder = corpus_of({"1": notes("1", 500)}), api._query, QdrantBuilder(ours, 1)
    builder.build(tmp_path / QDRANT, some)
    blind = 0

    def near(found: Any, asked: models.QueryRequest) -> Any:
        nonlocal blind
        blind -= not asked.params.exact  # type: ignore[union-attr]
        return search(found, asked) if asked.params.exact or blind < 0 else {"points": []}  # type: ignore[union-attr]

    api._query = near  # type: ignore[method-assign]
    for blind, unreached in ((0, 0), (1, 1)):  # noqa: B007 - `near` counts it down
        assert builder.check(tmp_path / QDRANT, tmp_path / "scratch", some).unreached == unreached
    blind = 2
    with pytest.raises(ReleaseRefused, match="does not find the vector of chunk 1/0"):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", some)


def test_the_proof_waits_for_the_graph(
    api: QdrantApi, ours: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, builder = built(ours, tmp_path / QDRANT), QdrantBuilder(ours, 1)
    api.statuses = ["grey", "yellow", "yellow"]
    api.requests.clear()
    builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    assert [path for _, path, _ in api.requests[:5]] == [f"/collections/{served.name}"] * 4 + [
        f"/collections/{served.name}/points/count"
    ]
    api.statuses = ["red"]
    with pytest.raises(IndexServerUnavailable, match=r"is red, not green: no space left\. Check the server's log"):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    monkeypatch.setattr(qdrant, "INDEXING_SECONDS", 0.0)
    api.statuses = ["yellow"] * 3
    with pytest.raises(IndexServerUnavailable, match="is yellow, not green: it has not finished its graph"):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)


# ------------------------------------------------------------------------------------------------------ faults by night


@pytest.mark.parametrize("fault", ["drop", "lost", "500", "429"])
def test_what_passes_costs_the_night_nothing(api: QdrantApi, ours: Settings, tmp_path: Path, fault: str) -> None:
    """Every other request fails; one that is "lost" was obeyed before."""
    api.faults = [fault, "ok"] * 200
    served = built(ours, tmp_path / QDRANT)
    builder = QdrantBuilder(ours, 1)
    assert builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS).vectors["1"] == 120
    builder.follow(tmp_path / QDRANT)
    other = built(ours, tmp_path / "2.json", 2)
    assert builder.sweep([served.name]) == [other.name]
    assert set(api.collections) == {served.name}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_pass_ends_the_night_with_a_sentence(
    api: QdrantApi, ours: Settings, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_server, "ATTEMPTS", 1 if fault == "hang" else 4)
    builder = QdrantBuilder(ours, 1)
    builder.refuse_unless_usable()
    api.fault = fault
    with pytest.raises(IndexServerUnavailable) as caught:
        builder.build(tmp_path / QDRANT, CORPUS)
    assert str(caught.value).startswith("Qdrant is not available (")
    assert ("timed out" in str(caught.value)) == (fault == "hang"), "else the server gave up first"
    assert str(caught.value).endswith("then run the night again.")
    assert KEY not in repr(caught.value)
    assert not (tmp_path / QDRANT).exists()


def test_a_night_without_a_server_says_so_before_all_else() -> None:
    with pytest.raises(SettingsError, match="QDRANT_URL is not set"):
        QdrantBuilder(load_settings(), 1).refuse_unless_usable()


def test_only_what_is_ours_and_unused_is_swept(settings: Settings, tmp_path: Path) -> None:
    kept, aliased, old = (built(settings, tmp_path / f"{run}.json", run).name for run in (1, 2, 3))
    index = settings.index_name
    strangers = [index + "x-1-aaaaaaaa", f"{index}-notes", f"{index}-1-short"]
    builder = QdrantBuilder(settings, 4)
    with looking(settings) as client:
        try:
            for name in strangers:
                ensure(client, name, 4)
            builder.follow(tmp_path / "2.json")
            assert builder.sweep([kept]) == sorted([aliased, old]), "wherever the alias leads"
            assert builder.sweep([kept]) == []
            left = {one.name for one in client.get_collections().collections}
            assert {kept, *strangers} <= left
            assert not {aliased, old} & left
        finally:
            for name in strangers:
                client.delete_collection(name)


# -------------------------------------------------------------------------------------------------------- faults by day


@pytest.fixture
def asked(ours: Settings, tmp_path: Path, embedder: MadeUp) -> Iterator[QdrantBackend]:
    """A backend that is open."""
    found = opened(ours, make_release(ours, tmp_path, ["qdrant"], SAID), "qdrant")
    assert isinstance(found, QdrantBackend)
    assert found.is_available(), found.why_not
    yield found
    found.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_closes_the_index_until_it_is_opened_again(
    api: QdrantApi, asked: QdrantBackend, fault: str
) -> None:
    api.fault = fault
    with pytest.raises(IndexServerUnavailable, match="the qdrant server is not available") as caught:
        asked.search("note 7 of 1", "1", 1)
    assert ("timed out" in str(caught.value)) == (fault == "hang"), "else the server gave up first"
    assert not asked.is_available()
    requests = len(api.requests)
    assert asked.search("note 7 of 1", "1", 1) == []
    assert np.isnan(asked.similarities("note 7 of 1", "1", ["1/7"])).all()
    assert len(api.requests) == requests, "nobody waits for it again"
    asked.open()
    assert "the qdrant server is not available" in (asked.why_not or "")
    assert KEY not in (asked.why_not or "")
    api.fault = "ok"
    asked.open()
    assert asked.why_not is None
    assert ids(asked.search("note 7 of 1", "1", 1)) == ["1/7"]


def test_a_port_that_takes_calls_and_never_answers_is_not_waited_for(
    api: QdrantApi, ours: Settings, tmp_path: Path, embedder: MadeUp
) -> None:
    release = make_release(ours, tmp_path, ["qdrant"], SAID)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = ours.model_copy(update={"qdrant_url": f"http://127.0.0.1:{silent.getsockname()[1]}"})
        found = opened(away, release, "qdrant")
        assert "is not available (NoAnswer: timed out)" in (found.why_not or "")
        found.close()
        with pytest.raises(IndexServerUnavailable, match="timed out"):
            QdrantBuilder(away, 2).refuse_unless_usable()


def _narrow(client: QdrantClient, name: str) -> None:
    client.delete_collection(name)
    ensure(client, name, 8)


GONE: dict[str, tuple[Callable[[QdrantClient, str], None], str]] = {
    "deleted": (_delete, "is gone. Run the night again."),
    "fewer": (_lose, "holds 182 vectors, release 1 has 183"),
    "another size": (_narrow, "holds vectors of 8 dimensions"),
}


@pytest.mark.parametrize("how", GONE)
def test_a_collection_that_is_not_the_releases_is_not_asked(
    settings: Settings, tmp_path: Path, embedder: MadeUp, how: str
) -> None:
    path = make_release(settings, tmp_path, ["qdrant"], SAID)
    found = opened(settings, path, "qdrant")
    harm, why = GONE[how]
    with looking(settings) as client:
        harm(client, read_served(path / QDRANT).name)
    if how == "deleted":
        with pytest.raises(IndexServerUnavailable, match="404, Not found"):
            found.search("note 7 of 1", "1", 1)
    found.close()
    found.open()
    assert why in (found.why_not or "")
    assert found.search("note 7 of 1", "1", 1) == []
    found.close()


def test_a_row_of_another_chat_does_not_come_out(api: QdrantApi, asked: QdrantBackend) -> None:
    search = api._query

    def careless(found: Any, asked: models.QueryRequest) -> Any:
        answer = search(found, asked)
        answer["points"][0]["payload"]["chat_id"] = "2"
        del answer["points"][1]["payload"]
        return answer

    api._query = careless  # type: ignore[method-assign]
    assert len(ids(asked.search("note 7 of 1", "1", 5))) == 3
    assert "1/7" not in ids(asked.search("note 7 of 1", "1", 5))


# ---------------------------------------------------------------------------------------------------------------- the key


def test_a_key_that_is_refused_is_named_and_not_shown(
    api: QdrantApi, ours: Settings, tmp_path: Path, embedder: MadeUp
) -> None:
    release = make_release(ours, tmp_path, ["qdrant"], SAID)
    for wrong in (None, "an0ther"):
        other = load_settings(qdrant_url=api.url, qdrant_api_key=wrong, hmem_state_dir=tmp_path / "state")
        found = opened(other, release, "qdrant")
        assert "401, it refuses the key: set QDRANT_API_KEY" in (found.why_not or "")
        assert "an0ther" not in (found.why_not or "") + repr(found) + repr(other)
        found.close()
        with pytest.raises(IndexServerUnavailable, match="401, it refuses the key: set QDRANT_API_KEY"):
            QdrantBuilder(other, 1).refuse_unless_usable()


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\x00", f"{KEY}ü"])
def test_what_cannot_be_a_key_is_not_sent(api: QdrantApi, key: str) -> None:
    with pytest.raises(
        SettingsError, match="QDRANT_API_KEY contains characters that are not allowed in a key"
    ) as caught:
        QdrantBuilder(load_settings(qdrant_url=api.url, qdrant_api_key=key), 1).refuse_unless_usable()
    assert KEY not in repr(caught.value)
    assert api.requests == []


@pytest.mark.parametrize("url", ["http://[::1", "http://a b:1", "http://" + "x" * 300])
def test_an_address_that_is_none_is_a_sentence(ours: Settings, tmp_path: Path, embedder: MadeUp, url: str) -> None:
    wrong = ours.model_copy(update={"qdrant_url": url})
    with pytest.raises(IndexServerUnavailable, match="Qdrant is not available"):
        QdrantBuilder(wrong, 1).refuse_unless_usable()
    found = opened(wrong, make_release(ours, tmp_path, ["qdrant"], SAID), "qdrant")
    assert "the qdrant server is not available" in (found.why_not or "")
    found.close()


def test_the_stand_in_refuses_what_qdrant_does_not_know(api: QdrantApi, ours: Settings) -> None:
    """A mistake of ours must not pass here."""
    with looking(ours) as client:
        ensure(client, "hmem-1-aaaaaaaa", 4)
        http = client.http.client
        for method, path, body, why in (
            ("PUT", "/collections/hmem-1-aaaaaaaa", {}, "already exists|one unnamed vector"),
            ("PUT", "/collections/b", {"vectors": {"size": 4, "distance": "Cosine"}, "tenant": 1}, "tenant"),
            ("PUT", "/collections/b", {"vectors": {"size": 0, "distance": "Cosine"}}, "vectors.size"),
            ("POST", "/collections/hmem-1-aaaaaaaa/points/query", {"query": [1.0, 0.0, 0.0, 0.0]}, "filter"),
            ("POST", "/collections/hmem-1-aaaaaaaa/points/query", {"vector": [1.0]}, "vector"),
            ("POST", "/collections/b/points/count", {}, "Not found: Collection"),
            ("GET", "/collection", None, "GET /collection"),
        ):
            with pytest.raises(Exception, match=why):
                http.request(type_=dict, method=method, url=path, json=body)
