"""Embedding through the real `ollama` client against a loopback server that speaks its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pytest

from shared.embedder_local import LocalEmbedder
from shared.embedding import KNOWN_MODELS, Embedder, known_model, open_embedder
from shared.errors import EmbeddingError, SettingsError
from shared.release import read_manifest
from tests.conftest import World, free_port
from tests.servers.ollama_api import DIGEST, OllamaApi


@pytest.fixture
def ollama() -> Iterator[OllamaApi]:
    with OllamaApi() as api:
        yield api


class Opener(Protocol):
    def __call__(self, url: str, **more: object) -> Embedder: ...


@pytest.fixture
def open_at(world: World) -> Iterator[Opener]:
    """Opens embedders at a URL, and closes them."""
    opened: list[Embedder] = []

    def open_one(url: str, **more: object) -> Embedder:
        embedder = open_embedder(world.settings(embedder="ollama", ollama_url=url, **more))
        assert embedder is not None
        opened.append(embedder)
        return embedder

    yield open_one
    for embedder in opened:
        embedder.close()


def test_vectors_are_those_of_the_same_weights(open_at: Opener, ollama: OllamaApi) -> None:
    embedder = open_at(ollama.url)
    texts = [f"note number {number}" for number in range(40)]
    assert np.allclose(embedder.embed_documents(texts), LocalEmbedder().embed_documents(texts), atol=1e-6)
    assert [len(batch) for batch in ollama.embedded()] == [32, 8]
    assert embedder.identity.digest == f"sha256:{DIGEST}"
    assert embedder.identity.difference(LocalEmbedder().identity) is None


def test_prefixes_are_put_on_here(open_at: Opener) -> None:
    with OllamaApi({"nomic-embed-text:latest": DIGEST}) as ollama:
        embedder = open_at(ollama.url, embed_model="nomic-embed-text")
        with pytest.raises(
            EmbeddingError, match="shape"
        ):  # the loopback's vectors have 384 dimensions, not nomic's 768
            embedder.embed_documents(["a note"])
        with pytest.raises(EmbeddingError):
            embedder.embed_query("a question")
        assert ollama.embedded() == [["search_document: a note"], ["search_query: a question"]]


def test_a_night_with_ollama_is_searched_by_day_with_the_local_model(world: World, ollama: OllamaApi) -> None:
    world.say("t1", "the boiler code is 4711")
    world.night(embedder="ollama", ollama_url=ollama.url)
    embedding = read_manifest((world.memory_dir / "current").resolve()).embedding
    assert embedding is not None
    assert embedding.provider == "ollama"
    hits = json.loads(world.command("hmem", "search", "9912", "heating password", "--json").stdout)["hits"]
    assert hits[0]["scores"]["vector"] is not None


def test_a_missing_model_says_what_to_run(open_at: Opener, ollama: OllamaApi) -> None:
    ollama.models.clear()
    with pytest.raises(EmbeddingError, match="ollama pull all-minilm"):
        _ = open_at(ollama.url).identity


def test_no_server_is_one_sentence_and_nothing_is_flushed(world: World) -> None:
    world.say("t1", "something")
    done = world.command(
        "hmem-night", "run", check=False, EMBEDDER="ollama", OLLAMA_URL=f"http://127.0.0.1:{free_port()}"
    )
    assert done.returncode == EmbeddingError.exit_code
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    assert world.redis.exists("hcli:memory:t1:user")
    world.night()  # the owner mends it: the same night is finished
    assert not world.redis.exists("hcli:memory:t1:user")


@pytest.mark.parametrize("fault", ["fewer", "narrow", "nan"])
def test_an_answer_that_is_no_vector_is_refused(open_at: Opener, ollama: OllamaApi, fault: str) -> None:
    ollama.faults = [fault] * 20
    with pytest.raises(EmbeddingError):
        open_at(ollama.url).embed_documents(["one", "two"])


def test_the_table_of_models_is_sound() -> None:
    assert len({model.family for model in KNOWN_MODELS}) == len(KNOWN_MODELS)
    assert known_model("nomic-embed-text:v1.5").dimensions == 768
    with pytest.raises(SettingsError, match="not a known embedding model"):
        known_model("word2vec")


def test_vectors_come_back_when_the_embedder_does(world: World) -> None:
    """Ollama was asleep when the release was taken up: keywords at once, vectors at the next try, without a restart."""
    from dispatcher.memory import Memory

    world.say("t1", "the boiler code is 4711")
    world.night()
    with OllamaApi() as api:
        memory = Memory(world.settings(embedder="ollama", ollama_url=api.url))
        api.models.clear()
        memory.refresh()
        with memory.reading() as release:
            assert release is not None
            assert "ollama pull" in (release.vectors_missing or "")
            assert [hit.vector for hit in release.recall("9912", "boiler", 5).hits] == [None]
        api.models["all-minilm:latest"] = DIGEST
        memory.retry_vectors()
        with memory.reading() as release:
            assert release is not None
            assert release.vectors_missing is None
            assert release.recall("9912", "heating", 5).hits[0].vector is not None
        memory.close()
