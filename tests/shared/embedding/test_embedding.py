"""The shipped model against its float32 original, and what makes two vectors comparable."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.config.settings import load_settings
from shared.embedding.known_models import MINILM
from shared.embedding.local import embedder as local
from shared.embedding.local.embedder import LocalEmbedder
from shared.embedding.models import EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.errors import SettingsError
from tests.support.samples import PAIRS
from tests.support.world import REPOSITORY

#: Texts with words of different kinds; an empty text and 2,000 times one letter are no speech.
SPEECH = [(text, vector) for text, vector in PAIRS if len(set(text)) > 1]
IDENTITY = EmbeddingIdentity("family", 384, "doc: ", "query: ", "local", "sha256:1")


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(MINILM)


@pytest.mark.parametrize(
    ("text", "vector"), SPEECH, ids=[text[:20].encode("unicode_escape").decode() for text, _ in SPEECH]
)
def test_a_vector_is_close_to_the_float32_model(embedder: LocalEmbedder, text: str, vector: list[float]) -> None:
    expected = np.array(vector) / np.linalg.norm(vector)
    assert float(embedder.embed_query(text) @ expected) >= 0.97


def test_documents_in_a_batch_equal_each_one_alone_bit_for_bit(embedder: LocalEmbedder) -> None:
    texts = [text for text, _ in PAIRS] + [f"note {n} about the garden " * n for n in range(1, 11)]
    together, again = (
        embedder.embed_documents(texts).vectors,
        LocalEmbedder(MINILM).embed_documents(texts[::-1]).vectors[::-1],
    )
    alone = np.stack([embedder.embed_query(text) for text in texts])
    assert together.tobytes() == alone.tobytes() == again.tobytes()
    assert len({row.tobytes() for row in together}) == len(texts)


@pytest.mark.slow
def test_what_is_beyond_256_tokens_is_cut(embedder: LocalEmbedder) -> None:
    full = "puppy " * 254  # with [CLS] and [SEP]: 256
    cut = embedder.embed_query(full)
    assert embedder.embed_query(f"{full} zebra " * 3).tobytes() == cut.tobytes()
    assert embedder.embed_query("puppy " * 253 + "zebra").tobytes() != cut.tobytes(), "the last token counts"
    assert embedder.embed_query("word " * 200_000).shape == (384,)


@pytest.mark.parametrize("text", ["", " \n", "\x00", "\ud800 half", "🙂" * 500, "漢字", "a" * 100_000])
def test_odd_texts_have_a_unit_vector(embedder: LocalEmbedder, text: str) -> None:
    assert float(np.linalg.norm(embedder.embed_query(text))) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, None),
        ({"family": "other"}, "family 'family' against 'other'"),
        ({"dimensions": 768}, "dimensions 384 against 768"),
        ({"document_prefix": ""}, "document prefix 'doc: ' against ''"),
        ({"query_prefix": ""}, "query prefix 'query: ' against ''"),
        ({"digest": "sha256:2"}, "another version of the model at local"),
        ({"provider": "ollama"}, None),
        ({"provider": "ollama", "digest": "sha256:2"}, None),
        ({"provider": "ollama", "family": "other"}, "family 'family' against 'other'"),
    ],
)
def test_vectors_compare_only_between_equal_identities(change: dict[str, Any], difference: str | None) -> None:
    other = replace(IDENTITY, **change)
    assert IDENTITY.difference(other) == difference
    assert (other.difference(IDENTITY) is None) == (difference is None)


def test_the_settings_name_the_embedder() -> None:
    assert open_embedder(load_settings(embedder="none")) is None
    assert isinstance(open_embedder(load_settings(embedder="local", embed_model="all-minilm")), LocalEmbedder)
    with pytest.raises(SettingsError, match=r"EMBED_MODEL=bge-m3 is not a known embedding model of EMBEDDER=local"):
        open_embedder(load_settings(embedder="local", embed_model="bge-m3"))
    with pytest.raises(SettingsError, match="EMBED_MODEL=gpt-4 is not a known"):
        open_embedder(load_settings(embedder="ollama", embed_model="gpt-4"))


def test_release_and_day_that_open_the_model_at_once_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would take 27 MB more."""

    def opened_slowly(_: object) -> object:
        time.sleep(0.2)
        return object()

    local._shared.cache_clear()
    monkeypatch.setattr(local, "LocalEmbedder", opened_slowly)
    with ThreadPoolExecutor(2) as threads:
        opened = list(threads.map(lambda _: local.open_embedder(MINILM, load_settings()), range(2)))
    local._shared.cache_clear()
    assert opened[0] is opened[1]


def test_the_local_model_calls_nobody(tmp_path: Path) -> None:
    """onnxruntime would leave a device id in the home directory and send events; run apart, since that is settled at the import."""
    code = "from shared.embedding.local.embedder import *; [LocalEmbedder(one.model).embed_query('x') for one in FILES.values()]"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=REPOSITORY, check=True)
    assert list(tmp_path.iterdir()) == []
