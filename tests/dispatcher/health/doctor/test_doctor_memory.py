"""What `hmem doctor` finds of the embedder, the release, its indexes and its nights, and the day store: faults produced for real."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest
from redis import Redis

from dispatcher.health.findings import Finding
from shared.errors import IndexServerUnavailable
from shared.release.retention import write_pin
from shared.vectors.qdrant.settings import QdrantSettings
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.day.health import ask, expect, looks
from tests.support.machine import free_port
from tests.support.night.index_world import settings_for
from tests.support.world import World


class OtherModel(OllamaApi):
    """Somebody gave the name to other weights of the same size."""

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        answer = super().embed(texts, fault)
        return answer | {"embeddings": [row[::-1] for row in answer["embeddings"]]}


@pytest.mark.slow
def test_ollama_faults(host: World) -> None:
    host.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": f"http://127.0.0.1:{free_port()}"}
    found = expect(host, "embedder", 13, "Ollama at http.* does not answer", "Start it")
    assert found["vectors"].state == "skipped"
    with OllamaApi() as api:
        host.environment["OLLAMA_URL"] = api.url
        api.models.clear()
        missing = looks(host, "embedder")
        assert (missing.code, "has no model all-minilm" in missing.sentence) == (13, True)
        assert "ollama pull all-minilm" in missing.fix
        api.models["all-minilm:latest"] = DIGEST
        api.faults = ["narrow"] * 50
        expect(host, "embedder", 13, "100.*not 384", "EMBED_MODEL")
        api.faults = []
        assert looks(host, "embedder").state == "ok"
    with OtherModel() as api:
        host.environment["OLLAMA_URL"] = api.url
        expect(host, "embedder", 13, "differently from all-MiniLM-L6-v2.*cosine", "ollama pull")


def looks_with(host: World, name: str, **more: str) -> Finding:
    host.environment |= more
    return looks(host, name)


def test_a_memory_directory_that_is_empty_though_there_was_a_night(host: World) -> None:
    empty = host.root / "elsewhere"
    empty.mkdir()
    found = looks_with(host, "release", HMEM_MEMORY_DIR=str(empty))
    assert (found.state, "though night 1 has ended well" in found.sentence) == ("warning", True)
    assert "hmem-night run" not in found.fix, "it did, into another directory"


def test_a_manifest_that_is_newer_or_broken(host: World) -> None:
    manifest = (host.memory_dir / "current").resolve() / "manifest.json"
    content = orjson.loads(manifest.read_bytes())
    manifest.write_bytes(orjson.dumps(content | {"format_version": 99}))
    newer = looks(host, "release")
    assert (newer.code, "has format 99, this program reads" in newer.sentence) == (16, True)
    assert newer.fix.startswith("Update hcli-memory")
    manifest.write_text("{")
    found = looks(host, "release")
    assert found.code == 16
    assert "manifest" in found.sentence


def test_a_night_that_failed_since_the_last_good_one(host: World, durable: Redis) -> None:
    record = {"run": 2, "step": "embed", "error": "EmbeddingError", "sentence": "Ollama is away.", "exit_code": 13}
    durable.set("hcli:mem:night:failed", json.dumps(record | {"at": time.time() + 60}))
    found = looks(host, "failed night")
    assert (found.code, found.sentence) == (45, "Night 2 stopped at embed, 0.0 hours ago: Ollama is away.")
    durable.set("hcli:mem:night:failed", json.dumps(record | {"at": 1.0}))
    assert looks(host, "failed night").state == "ok"


def test_a_pinned_release(host: World) -> None:
    assert looks(host, "pin").state == "ok"
    write_pin(host.memory_dir, 1)
    found = looks(host, "pin")
    assert (found.state, found.code) == ("warning", 0)
    assert "Release 1 is pinned since 20" in found.sentence
    assert "hmem release rollback --unpin" in found.fix
    late = looks(host, "pin", now=lambda: time.time() + 40 * 3600)
    assert (late.state, late.code) == ("problem", 21)
    assert late.sentence.startswith("Release 1 has been pinned for 40 hours")
    (host.memory_dir / "pinned").write_text("{")
    damaged = looks(host, "pin")
    assert (damaged.code, "is damaged" in damaged.sentence, "hmem release" in damaged.fix) == (16, True, True)


def test_an_index_that_the_night_does_not_build_is_an_error(host: World) -> None:
    host.environment |= {"EMBEDDER": "local", "MEMORY_BACKEND": "chroma"}
    found = looks(host, "vectors")
    assert (found.state, found.code) == ("problem", 10)
    assert "MEMORY_BACKEND=chroma requires another index" in found.sentence
    assert "NIGHT_INDEXES" in found.fix
    done = host.status(check=False)
    assert "MEMORY_BACKEND=chroma requires another index" in done.stderr
    assert done.returncode == 10


@pytest.mark.slow
def test_an_index_that_cannot_be_searched(world: World) -> None:
    """The doctor opens it as a lookup does, and leaves no view of it behind."""
    world.say("t1", "the boiler code is 4711")
    with settings_for(["qdrant"], world.root) as settings:
        world.environment |= {
            "QDRANT_URL": (url := str(settings.of(QdrantSettings).qdrant_url)),
            "INDEX_NAME": settings.index_name,
        }
        world.night(night_indexes="qdrant,lancedb", qdrant_url=url, index_name=settings.index_name)
        assert "its lancedb index answers" in ask(world)[1]["vectors"].sentence
        assert "its qdrant index answers" in ask(world, MEMORY_BACKEND="qdrant")[1]["vectors"].sentence
    found = ask(world, MEMORY_BACKEND="qdrant")[1]["vectors"]
    assert (found.state, found.code) == ("problem", IndexServerUnavailable.exit_code)
    assert "The qdrant index of release 1 cannot be searched: the qdrant server is not available" in found.sentence
    assert not list((world.root / "state" / "views").glob("*"))
