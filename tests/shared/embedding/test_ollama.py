"""Embedding through the real `ollama` client against a loopback server that speaks its API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nightly.cli.main import pull_missing
from nightly.night.progress import Reporter
from nightly.steps import embed
from shared.embedding.known_models import MINILM
from shared.embedding.local.embedder import LocalEmbedder
from shared.embedding.ollama import server
from shared.embedding.ollama.embedder import CONTROL_TEXT, OllamaEmbedder
from shared.embedding.ollama.server import OllamaServer
from shared.embedding.probes import prove
from shared.errors import EmbeddingError
from shared.release.manifest import Manifest, read_manifest
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.vectors.base import backend_of
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port, hangs, slowness
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("model_of_ollama")


@pytest.fixture
def ollama() -> Iterator[OllamaApi]:
    with OllamaApi() as api:
        yield api


TEXTS = [f"note number {number} about the garden" for number in range(8)]


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long an answer may take."""
    return 2 * slowness() if hangs(request) else 60.0


@pytest.fixture
def quick(ollama: OllamaApi, seconds: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaEmbedder]:
    """An embedder that hardly pauses between attempts."""
    monkeypatch.setattr(server, "FIRST_PAUSE", 0.01)
    embedder = OllamaEmbedder(MINILM, "all-minilm", OllamaServer(ollama.url, seconds))
    embedder.embed_query("first call")  # the shipped model's own warm-up is not the server's fault
    ollama.requests.clear()
    yield embedder
    embedder.close()


def test_vectors_are_those_of_the_same_weights(quick: OllamaEmbedder, ollama: OllamaApi) -> None:
    texts = [f"note number {number}" for number in range(40)]
    ours, theirs = quick.embed_documents(texts), LocalEmbedder(MINILM).embed_documents(texts)
    assert np.allclose(ours.vectors, theirs.vectors, atol=1e-6)
    assert ours.refused == {}
    assert [len(batch) for batch in ollama.embedded()] == [32, 8]
    assert quick.identity.digest == f"sha256:{DIGEST}"
    assert quick.identity.difference(LocalEmbedder(MINILM).identity) is None


@pytest.mark.parametrize("fault", ["drop", "hang", "500", "nan", "html"])
def test_what_happens_once_is_tried_again(quick: OllamaEmbedder, ollama: OllamaApi, fault: str) -> None:
    ollama.faults = [fault]
    answer = quick.embed_documents(TEXTS)
    assert answer.refused == {}
    assert np.allclose(answer.vectors, LocalEmbedder(MINILM).embed_documents(TEXTS).vectors, atol=1e-6)
    assert ollama.embedded() == [TEXTS, TEXTS]


def test_a_text_that_is_too_long_costs_only_itself(quick: OllamaEmbedder, ollama: OllamaApi) -> None:
    texts = [*TEXTS[:5], "too long " * 1000, *TEXTS[5:]]
    answer = quick.embed_documents(texts)
    assert answer.refused == {5: "the input length exceeds the context length"}
    assert not answer.vectors[5].any()
    others = LocalEmbedder(MINILM).embed_documents(TEXTS).vectors
    assert np.allclose(np.delete(answer.vectors, 5, axis=0), others, atol=1e-6)
    sizes = [len(batch) for batch in ollama.embedded()]
    assert sizes == [9, 4, 5, 2, 1, 1, 1, 3], "no refusal is asked again; the fifth single is the control text"
    assert ollama.embedded()[6] == [CONTROL_TEXT]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [("drop", "connection"), ("hang", "no answer within {seconds:g} s"), ("500", "runner"), ("nan", "NaN"), ("fewer", "0 vectors")],
)  # fmt: skip
def test_a_text_that_kills_its_request_costs_only_itself(
    quick: OllamaEmbedder, ollama: OllamaApi, seconds: float, fault: str, reason: str
) -> None:
    ollama.poison = {"poison": fault}
    answer = quick.embed_documents([*TEXTS[:2], "poison", TEXTS[2]])
    assert list(answer.refused) == [2]
    assert reason.format(seconds=seconds) in answer.refused[2]
    assert np.linalg.norm(answer.vectors, axis=1) == pytest.approx([1, 1, 0, 1], abs=1e-5)
    assert [len(batch) for batch in ollama.embedded()] == [4, 4, 4, 2, 2, 1, 1, 1, 1, 1]
    assert "/api/version" in ollama.gets


def test_vectors_of_another_size_are_another_model(quick: OllamaEmbedder, ollama: OllamaApi) -> None:
    ollama.poison = {"note number 1": "narrow"}
    with pytest.raises(EmbeddingError, match="shape"):
        quick.embed_documents(TEXTS)


def manifest_of(world: World) -> Manifest:
    return read_manifest((world.memory_dir / "current").resolve())


def test_a_poison_text_stays_findable_by_keyword(world: World, ollama: OllamaApi, monkeypatch: Any) -> None:
    """A night through every error of the server: a text too long, one that drops the connection, a drop, a wrong count in passing."""
    monkeypatch.setattr("tests.servers.ollama_api.LONGEST", 800)
    for number, text in enumerate(TEXTS):
        world.say(f"t{number}", text)
    world.say("long", "the heron " + "was seen at the pond again " * 32)
    world.say("poison", "the grebe was not seen")
    world.say("only", "the coot alone", chat_id="77")
    ollama.poison = {"grebe": "drop", "coot": "400"}
    ollama.faults = ["ok", "drop", "fewer"]
    done = world.command("hmem-night", "run", EMBEDDER="ollama", OLLAMA_URL=ollama.url)
    assert "not embedded, found by keyword only: 2 × the input length exceeds the context length" in done.stdout
    manifest = manifest_of(world)
    refused = manifest.ledger["not_embedded"]
    assert sorted(refused) == ["long:user#1", "only:user#1", "poison:user#1"]
    assert manifest.ledger["chunks"] == manifest.chunks == len(TEXTS) + 3
    assert world.redis.keys("hcli:memory:*") == []
    release = OpenRelease(world.settings(), (world.memory_dir / "current").resolve())
    try:
        release.open_vectors()
        for chat, word in (("9912", "heron"), ("9912", "grebe"), ("77", "coot")):
            recalled = release.recall(Query(chat, word, 3))
            assert recalled.degraded == []
            # Among the first: which is the very first hangs on cosines, which differ a little from processor to processor.
            assert (word, None) in [(hit.chunk.text.split()[1], hit.meaning) for hit in recalled.hits]
        assert release.recall(Query("9912", "what grows there?", 3)).hits[0].meaning is not None
    finally:
        release.close()
    ollama.poison.clear()
    world.say("later", "one more")
    (summary,) = world.night(embedder="ollama", ollama_url=ollama.url)
    assert sum(summary["not_embedded"].values()) == 1, "the others are tried again, and pass"


@pytest.mark.slow
def test_many_refused_texts_are_the_models_fault(world: World, ollama: OllamaApi, monkeypatch: Any) -> None:
    monkeypatch.setattr(embed, "BATCH_TEXTS", 8)
    for number in range(20):
        world.say(f"t{number}", ("poison " if number < 3 else "note ") + str(number))
    monkeypatch.setattr("tests.servers.ollama_api.LONGEST", 200)
    ollama.poison = {"poison": "400"}
    with pytest.raises(EmbeddingError, match="refused 3 of 20 texts"):
        world.night(embedder="ollama", ollama_url=ollama.url)
    assert world.redis.exists("hcli:memory:t1:user")
    ollama.poison = {"poison 1": "400", "poison 2": "400"}
    (summary, _) = world.night(embedder="ollama", ollama_url=ollama.url)
    assert sum(summary["not_embedded"].values()) == 2, "a tenth of twenty is not more than a tenth"


def test_another_model_under_the_name_stops_the_night(world: World, ollama: OllamaApi) -> None:
    world.say("t1", "the boiler code is 4711")
    ollama.turned = True
    with pytest.raises(EmbeddingError, match="answers differently from all-MiniLM-L6-v2 as shipped"):
        world.night(embedder="ollama", ollama_url=ollama.url)
    assert list((world.night_dir / "archive").iterdir()), "archived before anything was asked"
    assert world.redis.exists("hcli:memory:t1:user")


def vectors_missing(world: World, **more: Any) -> str | None:
    """Why the current release has no vectors by day, with these settings."""
    settings = world.settings(**more)
    release = (world.memory_dir / "current").resolve()
    backend = backend_of(settings, release, read_manifest(release))
    backend.open()
    why = backend.why_not
    backend.close()
    return why


@pytest.mark.slow
def test_the_day_compares_its_model_with_the_nights(world: World, ollama: OllamaApi) -> None:
    world.say("t1", "the boiler code is 4711")
    world.night(embedder="ollama", ollama_url=ollama.url)
    embedding = manifest_of(world).embedding
    assert embedding is not None
    assert [len(probe) for probe in embedding.probes] == [384] * 3
    assert embedding.probes == prove(LocalEmbedder(MINILM))
    night = {"embedder": "ollama", "ollama_url": ollama.url}
    assert vectors_missing(world) is None
    assert vectors_missing(world, **night) is None
    ollama.turned = True
    assert "answers differently" in (vectors_missing(world, **night) or "")
    ollama.turned = False
    ollama.models["all-minilm:latest"] = "0" * 64
    assert "another version of the model at ollama" in (vectors_missing(world, **night) or "")
    assert vectors_missing(world) is None, "the local model's digest is not the server's"


@pytest.mark.slow
def test_pull_fetches_what_is_missing_and_shows_progress(world: World, ollama: OllamaApi) -> None:
    ollama.models.clear()
    world.say("t1", "the boiler code is 4711")
    world.environment |= {
        "EMBEDDER": "ollama",
        "OLLAMA_URL": ollama.url,
        "WRITER": "ollama:llama3.2",
        "WRITES": "summaries",
    }
    without = world.command("hmem-night", "run", check=False)
    assert without.returncode == EmbeddingError.exit_code
    assert "ollama pull all-minilm (or hmem-night run --pull)" in without.stderr
    done = world.command("hmem-night", "run", "--pull")
    assert "pull all-minilm: downloading, 0 %" in done.stderr
    assert "pull llama3.2: success" in done.stderr
    assert [body["model"] for path, body in ollama.requests if path == "/api/pull"] == ["all-minilm", "llama3.2"]
    assert manifest_of(world).embedding is not None
    world.command("hmem-night", "run", "--pull", "--json")
    assert len([path for path, _ in ollama.requests if path == "/api/pull"]) == 2, "what is there is not fetched again"


@pytest.mark.slow
def test_a_pull_that_fails_is_said_and_the_night_goes_on(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    pull_missing(
        world.settings(embedder="local", writer="ollama:llama3.2", writes="summaries", ollama_url=gone), Reporter()
    )
    assert re.search("Nothing was pulled: Ollama at .* does not answer", capsys.readouterr().err)
    pull_missing(world.settings(ollama_url=gone), Reporter())
    assert capsys.readouterr().err == "", "nothing is wanted from Ollama"


def test_vectors_come_back_when_the_embedder_does(world: World) -> None:
    """Ollama was asleep when the release was taken up: keywords at once, vectors at the next try, without a restart."""
    from dispatcher.releases.served import ServedRelease

    world.say("t1", "the boiler code is 4711")
    world.night()
    with OllamaApi() as api:
        memory = ServedRelease(world.settings(embedder="ollama", ollama_url=api.url))
        api.models.clear()
        memory.refresh()
        with memory.reading() as release:
            assert release is not None
            assert "ollama pull" in (release.vectors_missing or "")
            assert [hit.meaning for hit in release.recall(Query("9912", "boiler", 5)).hits] == [None]
        api.models["all-minilm:latest"] = DIGEST
        memory.retry()
        with memory.reading() as release:
            assert release is not None
            assert release.vectors_missing is None
            assert release.recall(Query("9912", "heating", 5)).hits[0].meaning is not None
        memory.close()
