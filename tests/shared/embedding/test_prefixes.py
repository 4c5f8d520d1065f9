"""What each known model gets ahead of a question and of a text: seen by a server that speaks Ollama's protocol, and by fastembed's own runtime."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dispatcher.memory.embedder import label
from nightly.index.vector_cache import VectorCache
from shared.config.settings import load_settings
from shared.embedding.fastembed.embedder import FastembedEmbedder
from shared.embedding.known_models import KNOWN_MODELS, KnownModel, known_model
from shared.embedding.open import open_embedder
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.shared.embedding.small_models import place, table, write_mixing_onnx


@pytest.mark.parametrize("model", [model for model in KNOWN_MODELS if model.ollama], ids=lambda model: model.name)
def test_every_model_is_sent_its_own_prefixes_once(model: KnownModel) -> None:
    name = str(model.ollama)
    with OllamaApi({name if ":" in name else f"{name}:latest": DIGEST}) as ollama:
        ollama.widths[name] = model.dimensions
        settings = load_settings(embedder="ollama", embed_model=name, ollama_url=ollama.url)
        embedder = open_embedder(settings)
        assert embedder is not None
        with closing(embedder):
            assert embedder.embed_documents(["a note", "another"]).vectors.shape == (2, model.dimensions)
            assert embedder.embed_query("a question").shape == (model.dimensions,)
            identity = embedder.identity
        before, ahead = model.document_prefix, model.query_prefix
        assert ollama.embedded() == [[before + "a note", before + "another"], [ahead + "a question"]]
        assert (identity.document_prefix, identity.query_prefix) == (before, ahead)


def test_vectors_of_other_prefixes_are_other_vectors(tmp_path: Path) -> None:
    """Whichever of the two is changed in the table: nothing that was cached by night or stored by day is taken for the same."""
    model = known_model("nomic-embed-text", "ollama")
    changed = [model, replace(model, document_prefix="x: "), replace(model, query_prefix="x: ")]
    identities = [one.identity("ollama", "sha256:1") for one in changed]
    assert len({label(identity) for identity in identities}) == 3
    vector = np.ones((1, 768), np.float32)
    for identity in identities:
        cache = VectorCache(tmp_path / "cache.sqlite", identity, print)
        assert next(cache.get_many(["a note"])) is None
        cache.put(["a note"], vector)
        cache.close()


@pytest.mark.parametrize("model", [model for model in KNOWN_MODELS if model.fastembed], ids=lambda model: model.name)
def test_every_model_gets_its_own_prefixes_once(tmp_path: Path, model: KnownModel) -> None:
    cache = tmp_path / "models"
    file = place(cache, model)
    write_mixing_onnx(file, table(model.dimensions))
    embedder = FastembedEmbedder(model, cache)
    bare = FastembedEmbedder(replace(model, document_prefix="", query_prefix=""), cache)
    document, query = embedder.embed_documents(["boat"]).vectors[0], embedder.embed_query("boat")
    assert document.tobytes() == bare.embed_query(model.document_prefix + "boat").tobytes()
    assert query.tobytes() == bare.embed_query(model.query_prefix + "boat").tobytes()
    alone = bare.embed_query("boat").tobytes()
    assert (document.tobytes() == alone, query.tobytes() == alone) == (
        not model.document_prefix,
        not model.query_prefix,
    )
