"""`hmem embedder`: the table of models, and one of them measured on a real release through a loopback server that speaks Ollama's protocol."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.health.embedding.trial import run_trial, share
from dispatcher.memory.tombstones import Forgotten
from shared.delivery import gate
from shared.delivery.trial import chunks_in, finds
from shared.embedding.choices import choice_of
from shared.embedding.known_models import KNOWN_MODELS, known_model
from shared.embedding.probes import PROBE_TEXTS
from shared.errors import EmbeddingError, InvalidInput
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns
from shared.turns.chunk import Chunk
from shared.turns.records import Tombstone
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port
from tests.support.world import World

NOMIC = known_model("nomic-embed-text")
TOPICS = "boiler heron garden ferry violin bakery lantern orchard puzzle harbour meadow anchor".split()


@pytest.fixture
def ollama() -> Iterator[OllamaApi]:
    with OllamaApi(
        {"all-minilm:latest": DIGEST, "nomic-embed-text:latest": "2" * 64, "mystery:latest": "3" * 64}
    ) as api:
        api.widths = {"nomic-embed-text": NOMIC.dimensions, "mystery": 100}
        yield api


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Path:
    """The directories of an installation after one night: 24 turns in two chats, embedded with the shipped model."""
    with closing(Redis.from_url(redis_url)) as client:
        client.flushall()
        world = World(tmp_path_factory.mktemp("built"), client, redis_url)
        for number, topic in enumerate(TOPICS):
            for chat in ("1", "2"):
                text = f"yesterday somebody mentioned the {topic} beside number {number} of chat {chat}"
                world.say(f"c{chat}t{number}", text, chat_id=chat, timestamp=1_707_500_000.0 + 60 * number)
        world.night()
    return world.root


@pytest.fixture
def told(built: Path, world: World, ollama: OllamaApi) -> World:
    """An installation with that release."""
    shutil.copytree(built, world.root, symlinks=True, dirs_exist_ok=True)
    world.environment = {"OLLAMA_URL": ollama.url}
    return world


def everything(world: World) -> dict[str, str]:
    """Each file of the installation, and its hash."""
    return {
        str(path.relative_to(world.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(world.root.rglob("*"))
        if path.is_file()
    }


def tried(world: World, *arguments: str, **more: str) -> dict[str, Any]:
    done = world.command("hmem", "embedder", "try", *arguments, "--json", check=True, **more)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_list_says_what_is_known_what_is_in_use_and_what_is_here(told: World) -> None:
    done = told.command("hmem", "embedder", "list")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = {line[3:].split()[0]: line for line in lines[1 : 1 + len(KNOWN_MODELS)]}
    assert list(rows) == [model.name for model in KNOWN_MODELS]
    assert [name for name, line in rows.items() if line.startswith("*")] == ["all-minilm"]
    assert [name for name, line in rows.items() if "+" in line] == ["all-minilm", "nomic-embed-text"]
    assert "paraphrase-multilingual is not advised: " in done.stdout
    assert "LongMemEval .318" in done.stdout
    assert "Your turns: en 100 %. A model for English fits." in done.stdout
    assert done.stderr == ""


def test_the_list_as_json_has_every_field_of_the_table(told: World) -> None:
    found = json.loads(told.command("hmem", "embedder", "list", "--json", EMBEDDER="ollama", EMBED_MODEL="nomic-embed-text").stdout)  # fmt: skip
    assert set(found) == {"in_use", "ollama", "fastembed", "languages", "models"}
    assert found["in_use"] == {"embedder": "ollama", "embed_model": "nomic-embed-text", "name": "nomic-embed-text"}
    assert found["ollama"] == {"url": told.environment["OLLAMA_URL"], "error": None}
    models = {model["name"]: model for model in found["models"]}
    assert list(models) == [model.name for model in KNOWN_MODELS]
    assert models["nomic-embed-text"] == {
        "name": "nomic-embed-text",
        "family": "nomic-embed-text-v1.5",
        "in_use": True,
        "ollama": {"name": "nomic-embed-text", "mb": 274, "installed": True},
        "fastembed": {"name": "nomic-ai/nomic-embed-text-v1.5", "mb": 520, "installed": False},
        "dimensions": 768,
        "token_limit": 2048,
        "prefixes": {"document": "search_document: ", "query": "search_query: "},
        "licence": "Apache-2.0",
        "languages": 1,
        "recall": {"LoCoMo": 0.624},
        "advised_against": None,
    }
    assert models["bge-m3"]["fastembed"] is None
    assert models["snowflake-arctic-embed2"]["recall"] == {"LoCoMo": 0.713}
    assert models["all-minilm"]["recall"] == {"LoCoMo": 0.474}


def test_a_server_that_does_not_answer_is_said_and_the_table_is_shown(world: World) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    done = world.command("hmem", "embedder", "list", OLLAMA_URL=gone)
    assert f"note: what Ollama has is not known: Ollama at {gone} does not answer" in done.stderr
    assert "snowflake-arctic-embed2" in done.stdout
    found = json.loads(world.command("hmem", "embedder", "list", "--json", OLLAMA_URL=gone).stdout)
    assert {model["ollama"]["installed"] for model in found["models"] if model["ollama"]} == {None}
    assert found["languages"] == {}, "there is no release yet"


def test_a_model_is_measured_beside_the_one_in_use_and_nothing_is_changed(told: World, ollama: OllamaApi) -> None:
    before, keys = everything(told), sorted(told.redis.keys("*"))
    done = told.command("hmem", "embedder", "try", "nomic-embed-text")
    found = tried(told, "nomic-embed-text")
    assert everything(told) == before
    assert sorted(told.redis.keys("*")) == keys
    heads = next(line for line in done.stdout.splitlines() if "(in use)" in line)
    assert heads.split() == ["all-minilm", "(in", "use)", "nomic-embed-text"]
    for part in (
        '    EMBEDDER = "ollama"',
        '    EMBED_MODEL = "nomic-embed-text"',
        "hmem-night backfill archive --reembed",
    ):
        assert part in done.stdout.splitlines() or part in done.stdout
    assert "embeds all 24 texts anew" in done.stdout
    assert "questions are answered by words only" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "Embedding with nomic-embed-text: 24 of 24 texts" in done.stderr
    assert (found["release"], found["turns"], found["passages"], found["texts"]) == (1, 24, 24, 24)
    assert found["sample"] == {"passages": 24, "chats": 2, "questions": 24}
    assert found["set"] == {"EMBEDDER": "ollama", "EMBED_MODEL": "nomic-embed-text"}
    assert set(found["tried"]) == {
        "embedder", "embed_model", "listed", "licence", "error", "dimensions", "found", "found_by_vectors", "question_ms",
        "texts_per_second", "night_seconds", "disk_bytes_per_1000_turns", "memory_bytes_per_1000_turns", "refused",
    }  # fmt: skip
    assert (found["in_use"]["embedder"], found["in_use"]["found"], found["found_by_words"]) == ("local", 24, 24)
    assert found["gate"]["questions"] == 24
    assert (found["in_use"]["disk_bytes_per_1000_turns"], found["tried"]["disk_bytes_per_1000_turns"]) == (
        768_000,
        1_536_000,
    )
    assert found["notes"] == ["the release has only 24 passages, fewer than --sample 2000: all that are in the gate's chats were used."]  # fmt: skip


def test_texts_and_questions_of_a_trial_get_the_models_prefixes(told: World, ollama: OllamaApi) -> None:
    tried(told, "nomic-embed-text")
    sent = [text for batch in ollama.embedded() for text in batch]
    documents = [text for text in sent if text.startswith(NOMIC.document_prefix)]
    questions = [text for text in sent if text.startswith(NOMIC.query_prefix)]
    assert len(documents) == len(PROBE_TEXTS) + 24
    assert len(questions) == 12, "both chats are asked the same, which is embedded once"
    assert len(sent) == len(documents) + len(questions)
    assert not any(text.count("search_") > 1 for text in sent)


def test_a_sample_is_the_newest_turns_of_each_chat_and_no_more_is_sent(told: World, ollama: OllamaApi) -> None:
    found = tried(told, "nomic-embed-text", "--sample", "10")
    assert found["sample"] == {"passages": 10, "chats": 2, "questions": 10}
    sent = [text for batch in ollama.embedded() for text in batch if "mentioned" in text and "document" in text]
    assert sorted(text[-len("7 of chat 1") :] for text in sent) == sorted(
        f"{number} of chat {chat}"[-len("7 of chat 1") :] for chat in "12" for number in range(7, 12)
    )
    assert found["texts"] == 24, "a night embeds all"
    assert found["notes"] == []


def test_what_was_forgotten_is_neither_embedded_nor_asked(told: World, ollama: OllamaApi) -> None:
    forgotten = Forgotten(told.settings().hmem_state_dir)
    forgotten.add(Tombstone("f1", "1", 1_800_000_000.0, turn_ids=frozenset({"c1t11:user"})))
    forgotten.add(Tombstone("f2", "2", 1_800_000_000.0, before=1_707_500_000.0 + 60 * 6))
    found = tried(told, "nomic-embed-text")
    assert found["turns"] == 24 - 1 - 6
    sent = " ".join(text for batch in ollama.embedded() for text in batch)
    assert "anchor beside number 11 of chat 2" in sent
    assert "anchor beside number 11 of chat 1" not in sent
    assert "boiler beside number 0 of chat 2" not in sent


def test_on_the_whole_release_a_trial_finds_what_the_release_finds(told: World) -> None:
    """The sample's vectors and the hidden rest stand for a release of their own: with nothing hidden, for the real one."""
    settings = told.settings()
    found = run_trial(settings, choice_of(settings, "all-minilm"), 1000, lambda *_: None)
    sample = found.sample
    assert sample.hidden == {"1": HiddenTurns(), "2": HiddenTurns()}
    with closing(OpenRelease(settings, (told.memory_dir / "current").resolve())) as release:
        release.open_vectors()
        assert release.vectors_missing is None
        ids = {chunk.chunk_id for chunks in sample.taken.values() for chunk in chunks}
        assert found.wanted.found == [finds(release, probe, ids) for probe in sample.probes]
        assert sample.probes == gate.choose(chunks_in(release.path))


def turn(number: int, passages: int, chat: str = "1") -> list[Chunk]:
    ids = (f"t{number}:user",)
    return [
        Chunk(f"{ids[0]}#{one}", chat, f"t{number}", ids, "user", "user", "x", number, number, one, passages)
        for one in range(1, passages + 1)
    ]


def test_a_sample_holds_whole_turns_and_short_chats_leave_their_room_to_long_ones() -> None:
    long = [chunk for number in range(10) for chunk in turn(number, 3)]
    short = turn(1, 2, "2")
    shared = share({"1": long, "2": short, "3": []}, 12)
    assert shared["2"] == short
    assert shared["1"] == long[-9:], "the newest three turns: a fourth would be one passage too many"
    assert set(shared) == {"1", "2"}


def test_the_same_weights_elsewhere_find_the_same(told: World) -> None:
    done = told.command("hmem", "embedder", "try", "all-minilm", "--embedder", "ollama")
    assert "questions are answered as before, since the weights are the same" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    found = tried(told, "all-minilm", "--embedder", "ollama")
    for name in ("found", "found_by_vectors", "dimensions"):
        assert found["tried"][name] == found["in_use"][name]
    assert (found["gate"]["lost"], found["gate"]["won"]) == (0, 0)


def test_the_model_in_use_is_measured_alone(told: World) -> None:
    done = told.command("hmem", "embedder", "try", "all-minilm")
    assert "This is the model in use: there is nothing to set." in done.stdout
    found = tried(told, "all-minilm")
    assert found["tried"] == found["in_use"]
    assert found["set"] is None


def test_a_model_that_only_the_server_knows_is_measured_and_cannot_be_set(told: World, ollama: OllamaApi) -> None:
    found = tried(told, "mystery")
    assert (found["tried"]["listed"], found["tried"]["dimensions"], found["set"]) == (False, 100, None)
    assert "the licence of mystery is not known here: read it before you use the model." in found["notes"]
    assert "EMBED_MODEL cannot name mystery" in told.command("hmem", "embedder", "try", "mystery").stdout


def test_a_licence_with_conditions_and_a_model_that_is_not_advised_are_noted(told: World, ollama: OllamaApi) -> None:
    ollama.models |= {"embeddinggemma:latest": "4" * 64, "paraphrase-multilingual:latest": "5" * 64}
    ollama.widths |= {"embeddinggemma": 768, "paraphrase-multilingual": 768}
    assert "the licence of embeddinggemma (Gemma) has conditions of use" in " ".join(
        tried(told, "embeddinggemma")["notes"]
    )
    assert "paraphrase-multilingual is not advised" in " ".join(tried(told, "paraphrase-multilingual")["notes"])


def test_a_model_for_english_is_noted_where_other_languages_are_spoken(world: World, ollama: OllamaApi) -> None:
    for number, text in enumerate(["Где стоит моя лодка сегодня вечером?", "Котёл снова сломался в понедельник", "the heron is here"]):  # fmt: skip
        world.say(f"t{number}", text)
    world.night()
    assert "nomic-embed-text is for English; of the sample 33 % is." in tried(world, "nomic-embed-text", OLLAMA_URL=ollama.url)["notes"]  # fmt: skip


def test_a_model_in_use_that_is_not_here_is_said_and_the_other_is_measured(told: World) -> None:
    gone = {"EMBEDDER": "fastembed", "EMBED_MODEL": "intfloat/multilingual-e5-small"}
    found = tried(told, "all-minilm", "--embedder", "local", **gone)
    assert "has not been fetched" in found["in_use"]["error"]
    assert found["tried"]["found"] == 24
    assert found["gate"] is None
    assert any(note.startswith("the model in use could not be measured: ") for note in found["notes"])
    assert tried(told, "all-minilm", EMBEDDER="none")["in_use"] is None


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (("bge-m3",), EmbeddingError, "has no model bge-m3. Run where it runs: ollama pull bge-m3"),
        (("bge-m3", "--embedder", "fastembed"), InvalidInput, "EMBEDDER=fastembed does not have bge-m3. Use --embedder ollama."),
        (("word2vec",), InvalidInput, "has a model word2vec. hmem embedder list shows the names; if it is in Ollama's library"),
        (("word2vec", "--embedder", "fastembed"), InvalidInput, "Neither the table nor fastembed has a model word2vec."),
        (("word2vec", "--embedder", "local"), InvalidInput, "EMBEDDER=local is all-minilm and no other model."),
        (("e5-small-v2",), EmbeddingError, "-m shared.embedding.fastembed intfloat/e5-small-v2"),
        (("BAAI/bge-small-en-v1.5",), EmbeddingError, "-m shared.embedding.fastembed BAAI/bge-small-en-v1.5"),
        ((" ",), InvalidInput, "MODEL is empty."),
    ],
)  # fmt: skip
def test_a_model_that_is_not_to_be_had_is_one_sentence(
    told: World, arguments: tuple[str, ...], error: type[EmbeddingError], sentence: str
) -> None:
    before = everything(told)
    done = told.command("hmem", "embedder", "try", *arguments, check=False)
    assert done.returncode == error.exit_code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert everything(told) == before


def test_a_server_that_is_away_or_answers_wrongly_is_one_sentence(told: World, ollama: OllamaApi) -> None:
    def refused(**more: str) -> str:
        done = told.command("hmem", "embedder", "try", "nomic-embed-text", check=False, **more)
        assert done.returncode == EmbeddingError.exit_code
        return done.stderr

    assert "does not answer" in refused(OLLAMA_URL=f"http://127.0.0.1:{free_port()}")
    ollama.widths.clear()
    assert "nomic-embed-text returned vectors of shape 1 x [384], not 768" in refused()
    ollama.turned = True
    done = told.command("hmem", "embedder", "try", "all-minilm", "--embedder", "ollama", check=False)
    assert "answers differently from all-MiniLM-L6-v2 as shipped" in done.stderr


def test_without_a_release_or_without_a_word_in_it_there_is_nothing_to_measure_on(world: World) -> None:
    done = world.command("hmem", "embedder", "try", "all-minilm", check=False)
    assert done.returncode == InvalidInput.exit_code
    assert "There is no release in" in done.stderr
    assert not Path(world.memory_dir).exists()
    world.say("t1", "… !?")
    world.night()
    done = world.command("hmem", "embedder", "try", "all-minilm", check=False)
    assert done.returncode == InvalidInput.exit_code
    assert "of release 1 has no text that a question could be made of." in done.stderr
    assert world.command("hmem", "embedder", "try", "all-minilm", "--sample", "3", check=False).returncode == 2
