"""`EMBEDDER=fastembed`: loading, arithmetic and errors, on a small model made here in the multilingual one's place, and on the shipped weights."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.embedding.fastembed.embedder import FastembedEmbedder, _described
from shared.embedding.known_models import KNOWN_MODELS, MINILM, KnownModel, known_model
from shared.embedding.local.embedder import MODEL_DIR, LocalEmbedder
from shared.embedding.probes import PROBE_TEXTS, prove
from shared.errors import EmbeddingError, SettingsError
from shared.search.recall import OpenRelease
from shared.search.types import Query
from tests.shared.embedding.small_models import LINES, SPECIAL, place, snapshot, table, write_onnx
from tests.support.world import REPOSITORY, World

NAME = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
MULTILINGUAL = known_model(NAME, "fastembed")


def expected(model: KnownModel, *words: str) -> NDArray[np.float32]:
    """The mean of the tokens' vectors, of unit length."""
    ids = {word: number for number, word in enumerate([*SPECIAL, *LINES])}
    tokens = [ids.get(word, 1) for word in ("[CLS]", *words, "[SEP]")]
    mean = table(model.dimensions)[tokens].mean(axis=0)
    unit: NDArray[np.float32] = mean / np.linalg.norm(mean)
    return unit


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def small(cache: Path) -> FastembedEmbedder:
    place(cache, MULTILINGUAL)
    return FastembedEmbedder(MULTILINGUAL, cache)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to reach anybody fails, and is written down."""
    tried: list[Any] = []

    def refuse(*arguments: Any, **more: Any) -> Any:
        tried.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tried


def test_a_vector_is_the_mean_of_its_tokens_of_unit_length(small: FastembedEmbedder) -> None:
    assert small.embed_query("Where is my boat?") == pytest.approx(
        expected(MULTILINGUAL, "where", "is", "my", "boat", "?"), abs=1e-6
    )
    vectors = small.embed_documents(["моя лодка", "dog", ""]).vectors
    assert vectors.shape == (3, 384)
    assert vectors.dtype == small.embed_query("x").dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert vectors[2] == pytest.approx(expected(MULTILINGUAL), abs=1e-6)
    assert small.embed_documents([]).vectors.shape == (0, 384)


def test_the_shipped_weights_under_fastembed_are_the_shipped_model(cache: Path) -> None:
    folder = snapshot(cache, MINILM)
    for name in ("model.onnx", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json"):
        shutil.copy(MODEL_DIR / name, folder)
    embedder, local = FastembedEmbedder(MINILM, cache), LocalEmbedder(MINILM)
    texts = [*PROBE_TEXTS, "puppy " * 400, "", "Где моя лодка?"]
    ours, theirs = embedder.embed_documents(texts).vectors, local.embed_documents(texts).vectors
    assert np.sum(ours * theirs, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-4)
    assert embedder.identity.difference(local.identity) is None, "their vectors may be compared"
    assert embedder.identity.digest == local.identity.digest
    assert len(prove(embedder)) == 3


def test_another_model_under_that_name_is_found_out(cache: Path) -> None:
    place(cache, MINILM)
    with pytest.raises(EmbeddingError, match=r"answers differently .* delete it under FASTEMBED_CACHE_PATH"):
        prove(FastembedEmbedder(MINILM, cache))


def test_nobody_is_asked_when_the_model_is_not_here_and_the_error_says_what_to_do(
    cache: Path, no_network: list[Any]
) -> None:
    with pytest.raises(EmbeddingError) as refused:
        FastembedEmbedder(MULTILINGUAL, cache)
    for part in (NAME, str(cache), "has not been fetched", "-m shared.embedding.fastembed", "EMBEDDER=local"):
        assert part in str(refused.value)
    assert no_network == []


def damaged_onnx(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def damaged_tokenizer(file: Path) -> None:
    (file.parent / "tokenizer.json").write_text("{")


def other_dimensions(file: Path) -> None:
    write_onnx(file, table(768))


def only_nan(file: Path) -> None:
    write_onnx(file, table(384) * np.float32(np.nan))


@pytest.mark.parametrize("damage", [damaged_onnx, damaged_tokenizer, other_dimensions, only_nan])
def test_a_damaged_model_is_one_sentence(cache: Path, damage: Callable[[Path], None]) -> None:
    file = place(cache, MULTILINGUAL)
    damage(file)
    with pytest.raises(EmbeddingError, match=r"cannot be used: .* Delete that directory and fetch the model again"):
        FastembedEmbedder(MULTILINGUAL, cache)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the libraries read the environment when they are imported."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_hub_that_is_silent_or_away_is_an_error_in_time(cache: Path, silent: str) -> None:
    code = (
        "import sys; from pathlib import Path; from shared.embedding.fastembed.embedder import fetch; "
        "from shared.embedding.known_models import known_model; "
        f"fetch(known_model('{NAME}', 'fastembed'), Path(sys.argv[1]), 0.5)"
    )
    for hub in (silent, "http://127.0.0.1:9"):
        done = run_python("-c", code, str(cache), HOME=str(cache), HF_ENDPOINT=hub)
        assert f"cannot be fetched from {hub}: " in done.stderr.splitlines()[-1]
        assert "Let this host reach it, or copy" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_command_fetches_what_the_settings_name(cache: Path) -> None:
    place(cache, MULTILINGUAL)

    def run(model: str) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "shared.embedding.fastembed", HF_HUB_OFFLINE="1", FASTEMBED_CACHE_PATH=str(cache), EMBED_MODEL=model)  # fmt: skip

    assert f"{NAME} is in {cache}" in run(NAME).stdout
    missing, wrong = run("all-minilm"), run("bge-m3")
    assert (missing.returncode, wrong.returncode) == (EmbeddingError.exit_code, SettingsError.exit_code)
    assert "all-MiniLM-L6-v2 cannot be fetched" in missing.stderr


def test_loading_leaves_nothing_behind_and_calls_nobody(cache: Path, tmp_path: Path) -> None:
    place(cache, MULTILINGUAL)
    before = sorted(cache.rglob("*"))
    code = (
        "import sys; from pathlib import Path; from shared.embedding.fastembed.embedder import FastembedEmbedder, constants; "
        "from shared.embedding.known_models import known_model; "
        f"FastembedEmbedder(known_model('{NAME}', 'fastembed'), Path(sys.argv[1])).embed_query('boat'); assert constants.HF_HUB_DISABLE_TELEMETRY"
    )
    home = tmp_path / "home"
    home.mkdir()
    done = run_python("-c", code, str(cache), HOME=str(home), XDG_CACHE_HOME=str(home / "cache"))
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    assert sorted(cache.rglob("*")) == before


def test_the_table_says_what_fastembed_says() -> None:
    for model in KNOWN_MODELS:
        if model.fastembed:
            assert _described(model)["dim"] == model.dimensions
            assert known_model(model.fastembed, "fastembed") is model
            if model.ollama:
                assert known_model(model.ollama, "fastembed") is model


@pytest.mark.slow
def test_a_night_and_a_day_with_it(world: World, cache: Path) -> None:
    """Through the settings: a night embeds with it, a Russian question finds an English turn by day, doctor names it, and says when it is gone."""
    place(cache, MULTILINGUAL)
    world.environment = {"EMBEDDER": "fastembed", "EMBED_MODEL": NAME, "FASTEMBED_CACHE_PATH": str(cache)}
    for number, text in enumerate(["my boat", "the dog", "the boiler"]):
        world.say(f"t{number}", text)
    nights = [json.loads(world.command("hmem-night", "run", "--json").stdout) for _ in range(2)]
    assert [night[-1]["published"] for night in nights] == [True, False], "the same embedding: nothing to build"
    settings = world.settings()
    with closing(OpenRelease(settings, (world.memory_dir / "current").resolve())) as release:
        release.open_vectors()
        assert release.vectors_missing is None
        assert release.manifest.embedding is not None
        assert (release.manifest.embedding.provider, release.manifest.embedding.dimensions) == ("fastembed", 384)
        best = release.recall(Query("9912", "где моя лодка", 3)).hits[0]
        assert best.chunk.text == "my boat"
        assert best.meaning is not None
        assert best.scores["bm25"] == 0, "by meaning alone: no word is the same"
    done = world.command("hmem", "doctor", "--all", check=False)
    assert "paraphrase-multilingual-MiniLM-L12-v2 at fastembed (384 dimensions)" in done.stdout
    assert "The embedder fits release" in done.stdout
    shutil.rmtree(cache)
    gone = world.command("hmem", "doctor", "--all", check=False)
    assert "has not been fetched" in gone.stdout
    assert "shared.embedding.fastembed" in gone.stdout
