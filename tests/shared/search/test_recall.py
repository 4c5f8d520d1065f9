"""`OpenRelease.recall`: the one way in, with vectors that are there, late, broken or away; and what comes out of it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from shared.delivery.receiver import Receiver
from shared.errors import ReleaseRefused
from shared.release.manifest import FORMAT_VERSION, LEXICAL, MANIFEST
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.text.dates.named_times import read_times
from shared.vectors.base import MemoryBackend
from shared.vectors.searching import in_order
from tests.support.night.receiving import older_manifest
from tests.support.world import World

UTC = ZoneInfo("UTC")
NOON = datetime(2026, 5, 13, 12, tzinfo=UTC).timestamp()
DAY = 86400.0


class Meaning(MemoryBackend):
    """A vector index of a test: what a chunk means is looked up by its id."""

    def __init__(self, known: dict[str, float]) -> None:
        super().__init__("")
        self._why = None
        self.known = known
        self.asked: list[str] = []
        self.late: threading.Event | None = None
        self.error: Exception | None = None

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Any:
        self.asked.append(chat_id)
        if self.late:
            self.late.wait(600)
        if self.error:
            raise self.error
        return in_order(self.known, chunk_ids)


@pytest.fixture
def opened(light: World) -> Any:
    """Opens the release of what was said, with vectors if they are given."""
    releases: list[OpenRelease] = []

    def make(meaning: Meaning | None = None, **more: Any) -> OpenRelease:
        releases.append(OpenRelease(light.settings(**more), (light.memory_dir / "current").resolve()))
        if meaning:
            releases[-1]._made = meaning
        return releases[-1]

    yield make
    for release in releases:
        release.close()


def ids(release: OpenRelease, query: str, chat: str = "9912", **more: Any) -> list[str]:
    return [hit.chunk.chunk_id.partition(":")[0] for hit in release.recall(Query(chat, query, 50, **more)).hits]


def talk(world: World, **texts: str) -> None:
    """One turn each, a day apart, the last one yesterday."""
    for number, (task, text) in enumerate(texts.items(), start=1):
        world.say(task, text, timestamp=NOON - DAY * (len(texts) - number + 1))
    world.night()


def test_a_list_of_chats_makes_no_reader_of_vectors(light: World, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads numpy, 11 MB of the owner's page."""
    talk(light, boiler="the boiler broke")
    made: list[str] = []
    monkeypatch.setattr("shared.search.recall.backend_of", lambda *_: made.append("a reader"))
    with closing(opened()) as release:
        assert release.chats() == {"9912": 1}
        assert made == []


def test_a_first_lookup_at_the_same_time_does_not_bring_the_reader_back(
    light: World, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(light, boiler="the boiler broke")
    release, making, made = opened(), threading.Event(), threading.Event()

    def slowly(*_: Any) -> Meaning:
        making.set()
        made.wait(60)
        return Meaning({})

    monkeypatch.setattr("shared.search.recall.backend_of", slowly)
    threads = [
        threading.Thread(target=lambda: release.vectors_missing),
        threading.Thread(target=release.without_vectors, args=("a process died",)),
    ]
    for one in threads:
        one.start()
        assert making.wait(60)
    threads[1].join(0.2)
    made.set()
    for one in threads:
        one.join(60)
    assert release.vectors_missing == "a process died"


def test_meaning_finds_what_words_do_not(light: World, opened: Any) -> None:
    talk(light, boiler="the boiler broke", cat="our cat sleeps", dog="a dog barks")
    assert ids(opened(), "feline?") == []
    meaning = Meaning({"cat:user#1": 0.8, "boiler:user#1": 0.1})
    found = opened(meaning).recall(Query("9912", "feline?", 50))
    assert found.hits[0].chunk.chunk_id == "cat:user#1"
    assert found.degraded == []
    assert found.hits[0].scores["bm25"] == 0
    assert found.hits[0].meaning is not None
    assert found.hits[0].scores["cosine"] == pytest.approx(0.8)
    assert meaning.asked == ["9912"]


def test_without_an_answer_by_meaning_words_are_enough(light: World, opened: Any) -> None:
    talk(light, boiler="the boiler broke", cat="our cat sleeps")
    late, broken, none = Meaning({}), Meaning({}), Meaning({})
    late.late, broken.error = threading.Event(), RuntimeError("Ollama is asleep")
    for meaning, said in ((late, ["no answer within 0.050 s"]), (broken, ["Ollama is asleep"]), (none, [])):
        found = opened(meaning).recall(Query("9912", "boiler", 5, 0.05))
        if meaning.late:
            meaning.late.set()
        assert [(hit.chunk.chunk_id, hit.meaning) for hit in found.hits] == [("boiler:user#1", None)]
        assert found.degraded == [f"no vector search: {one}" for one in said]


def test_what_is_said_again_is_one_hit_that_names_the_others(light: World, opened: Any) -> None:
    talk(light, a="Good morning!", b="the boiler broke this morning", c="good morning", d="Good  morning!!")
    found = opened().recall(Query("9912", "morning", 3)).hits
    assert sorted((hit.chunk.text.lower()[:4], len(hit.also)) for hit in found) == [("good", 2), ("the ", 0)]
    many = next(hit for hit in found if hit.also)
    assert {*many.chunk.turn_ids, *many.also} == {"a:user", "c:user", "d:user"}


def test_a_time_in_the_question_raises_what_was_said_then(light: World, opened: Any) -> None:
    talk(light, a="we talked about the boiler", b="we talked about the boat", c="we talked about the bike")
    release = opened()
    assert ids(release, "what have we talked about yesterday?", now=NOON)[0] == "c"
    assert ids(release, "what have we talked about 3 days ago?", now=NOON)[0] == "a"
    assert ids(release, "what have we talked about yesterday?", now=NOON - DAY)[0] == "b"
    (first, *_) = release.recall(Query("9912", "what have we talked about yesterday?", 3, now=NOON)).hits
    assert first.scores["said_then"] > 0


def test_who_asks_for_advice_is_recalled_what_he_prefers(light: World, opened: Any) -> None:
    talk(
        light, a="which books in print are there", b="books: I prefer them in print", c="all the books in print I have"
    )
    asked = opened().recall(Query("9912", "what books in print would you suggest?", 3)).hits
    assert ids(opened(), "what books in print would you suggest?")[0] == "b"
    assert {hit.chunk.text[:5]: hit.scores["prefers"] > 0 for hit in asked} == {
        "which": False,
        "books": True,
        "all t": False,
    }
    assert "prefers" not in opened().recall(Query("9912", "which books in print?", 3)).hits[0].scores


def test_a_release_of_an_older_format_is_refused_and_the_night_makes_a_new_one(light: World, opened: Any) -> None:
    talk(light, a="the boiler broke")
    path = light.memory_dir / "current" / MANIFEST
    path.write_bytes(older_manifest(path.parent))
    with pytest.raises(ReleaseRefused, match=r"has format 4.*hmem-night run"):
        opened()
    with pytest.raises(ReleaseRefused, match="Run 1 is not above the current release's 1"):
        Receiver(light.settings(), light.memory_dir).begin(1)
    Receiver(light.settings(), light.memory_dir).begin(2)
    assert path.exists(), "a request for a copy of it removes nothing"
    (summary,) = light.night()
    assert "could not be searched" in summary["gate"]["warn"]
    assert ids(opened(), "boiler") == ["a"]
    assert orjson.loads((light.memory_dir / "current" / MANIFEST).read_bytes())["format_version"] == FORMAT_VERSION


def test_search_tells_every_score_and_takes_a_time(light: World) -> None:
    talk(light, a="the boiler broke", b="the boiler works")
    command = ("hmem", "search", "9912", "boiler yesterday", "--json", "--now")
    hits = json.loads(light.command(*command, "2026-05-13T12:00:00+00:00").stdout)["hits"]
    assert (hits[0]["turn_ids"], hits[0]["also"]) == (["b:user"], [])
    assert "bm25" in hits[0]["scores"]
    assert {"lexical", "length", "said_then"} <= set(hits[0]["parts"])
    assert light.command(*command, "soon", check=False).returncode == 24


def test_a_day_that_is_named_from_now_outweighs_a_shared_word_and_its_own_name(light: World, opened: Any) -> None:
    texts = {f"d{n}": f"the budget meeting number {n} was yesterday" for n in range(8)}
    talk(light, **texts, last="the budget was cut, and then we went home")
    assert ids(opened(), "what was the budget yesterday?", now=NOON)[0] == "last"
    times = read_times("What did we say last week, and in May 2025?", NOON, UTC)
    assert (times.from_now, "last week" in times.rest, "may 2025" in times.rest) == (True, False, True)
    assert read_times("What happened a year ago?", NOON, UTC).from_now is False


def test_what_is_not_as_it_was_built_is_not_served_and_the_rest_is(light: World, opened: Any) -> None:
    talk(light, a="the boiler broke", b="the engineer came to mend the boiler")
    release = light.memory_dir / "current"
    with closing(sqlite3.connect(release / "chats.sqlite")) as connection, connection:
        connection.execute("UPDATE chats SET summary = '- Zed: canary'")
    context = json.loads(light.command("hmem", "context", "9912", "boiler?", "--json").stdout)
    assert "canary" not in context["text"]
    assert [part["name"] for part in context["parts"]] == ["recalled"]
    assert any(why.startswith("no summary: Release 1: chats.sqlite was changed") for why in context["degraded"])

    with closing(sqlite3.connect(release / LEXICAL / "1.sqlite")) as connection, connection:
        connection.execute("UPDATE chunks SET text = 'canary'")
    context = json.loads(light.command("hmem", "context", "9912", "boiler?", "--json").stdout)
    assert (context["hits"], "canary" in context["text"]) == ([], False)
    assert any("lexical/1.sqlite was changed" in why for why in context["degraded"])
    assert light.command("hmem", "search", "9912", "boiler", check=False).returncode == 16

    (release / LEXICAL / "1.sqlite").unlink()
    assert (
        opened()
        .recall(Query("9912", "boiler", 5))
        .degraded[0]
        .startswith("no recalled text: Release 1: lexical/1.sqlite is missing")
    )
    status = light.status(check=False)
    assert (status.returncode, "is missing or was changed. Run the night (hmem-night run)" in status.stderr) == (
        16,
        True,
    )


def test_a_batch_names_what_could_not_be_asked_and_refuses_what_is_no_question(light: World, tmp_path: Path) -> None:
    talk(light, a="the boiler broke")
    batch = tmp_path / "batch.jsonl"
    batch.write_text('{"qid": 1, "chat_id": "9912", "question": "boiler"}\n')
    (line,) = light.command("hmem", "search", "--batch", str(batch), EMBEDDER="local").stdout.splitlines()
    assert json.loads(line)["degraded"] == ["no vector search: release 1 was built without a vector index"]
    for wrong in ('"question": ""', '"question": "x", "user_id": true'):
        batch.write_text(f'{{"qid": 1, "chat_id": "9912", {wrong}}}\n')
        done = light.command("hmem", "search", "--batch", str(batch), check=False)
        assert (done.returncode, "line 1" in done.stderr) == (24, True), done.stderr
    assert light.command("hmem", "search", "9912", "x", "--batch", str(batch), check=False).returncode == 24
    done = light.command("hmem", "context", "--batch", str(batch), "--budgets=500,,600", check=False)
    assert (done.returncode, "--budgets" in done.stderr) == (2, True)
