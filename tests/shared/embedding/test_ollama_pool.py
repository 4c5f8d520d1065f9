"""Several Ollama servers as one embedder: loopback servers that are slow, die, hang, or have another model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shared.embedding import ollama_pool, ollama_servers
from shared.embedding.known_models import LOCAL_MODEL
from shared.embedding.local import LocalEmbedder
from shared.embedding.ollama import CONTROL_TEXT, OllamaEmbedder
from shared.embedding.ollama_pool import LEAST_TEXTS, OllamaPool
from shared.embedding.ollama_server import OllamaServer, Patience
from shared.embedding.ollama_servers import OllamaServers
from shared.embedding.open import open_embedder
from shared.embedding.probes import PROBE_TEXTS
from shared.errors import EmbeddingError
from shared.release.manifest import read_manifest
from tests.servers.ollama_api import DIGEST, OllamaApi, shipped_model
from tests.support.machine import free_port, hangs, slowness, wait_for
from tests.support.world import World

TEXTS = [f"note number {number} about the garden" for number in range(300)]
Wait = Callable[[float], None]


@pytest.fixture
def servers() -> Iterator[list[OllamaApi]]:
    """Three servers that answer with the shipped model."""
    with ExitStack() as stack:
        yield [stack.enter_context(OllamaApi()) for _ in range(3)]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Wait:
    """Moves the pool's clock on."""
    passed = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0])
    monkeypatch.setattr(ollama_pool, "time", clock)
    monkeypatch.setattr(ollama_servers, "time", clock)

    def wait(seconds: float) -> None:
        passed[0] += seconds

    return wait


class Pool(OllamaPool):
    """A pool of these servers, and what it says."""

    def __init__(self, *urls: str, hedge_seconds: float = 60.0, seconds: float = 60.0) -> None:
        self.said, self.seconds = list[str](), seconds
        made = [OllamaServer(url, seconds, Patience(attempts=1)) for url in urls]
        each = [OllamaEmbedder(LOCAL_MODEL, "all-minilm", one, suspicious=True) for one in made]
        super().__init__(each, hedge_seconds, self.said.append)


@pytest.fixture
def pool(request: pytest.FixtureRequest, servers: list[OllamaApi]) -> Iterator[Pool]:
    made = Pool(*(api.url for api in servers), seconds=2 * slowness() if hangs(request) else 60.0)
    yield made
    made.close()


def prove_all(pool: Pool, servers: list[OllamaApi]) -> None:
    """Every server has proven itself and none has done more."""
    pool.embed_documents([])
    while not all(member.proven for member in pool._members):
        pool.embed_documents(["first call"])
    for api in servers:
        api.requests.clear()


def right(pool: Pool, texts: list[str] = TEXTS) -> bool:
    """Whether the pool's vectors are the model's, in the order of the texts."""
    answer, wanted = pool.embed_documents(texts), shipped_model().embed_documents(texts)
    return answer.refused == {} and np.allclose(answer.vectors, wanted.vectors, atol=1e-6)


def hold(*servers: OllamaApi, until: Callable[[], bool]) -> None:
    """They answer to stored texts only then: it is not left to chance who is given how many."""
    for api in servers:

        def late(texts: list[str], fault: str, embed: Any = api.embed) -> Any:
            if any(text in TEXTS for text in texts):
                wait_for(until, "the other servers")
            return embed(texts, fault)

        api.embed = late  # type: ignore[method-assign]


def embedded(*servers: OllamaApi) -> Counter[str]:
    """How often each text was requested, without probes and control texts."""
    asked = Counter(text for api in servers for batch in api.embedded() for text in batch)
    return Counter({text: count for text, count in asked.items() if text in TEXTS})


def test_a_slow_server_does_less_and_nothing_is_embedded_twice(pool: Pool, servers: list[OllamaApi]) -> None:
    prove_all(pool, servers)
    hold(servers[0], until=lambda: embedded(*servers).total() == len(TEXTS))
    hold(*servers[1:], until=lambda: embedded(servers[0]).total() > 0)
    assert right(pool)
    assert embedded(*servers) == Counter(TEXTS)
    assert len(servers[0].embedded()) == 1, "the others have done the rest meanwhile"
    assert pool.said == []


def test_the_last_texts_are_handed_out_in_small_portions(pool: Pool, servers: list[OllamaApi]) -> None:
    prove_all(pool, servers)
    assert right(pool)
    sizes = [len(batch) for api in servers for batch in api.embedded()]
    assert max(sizes) == 32
    assert sizes.count(LEAST_TEXTS) > 1
    assert pool.texts_at_once > len(TEXTS)


def test_a_server_that_dies_in_the_middle_loses_one_request_to_another(pool: Pool, servers: list[OllamaApi]) -> None:
    prove_all(pool, servers)
    servers[1].dies_after = 1
    hold(servers[0], servers[2], until=lambda: servers[1].dead)
    assert right(pool)
    twice = [text for text, count in embedded(*servers).items() if count > 1]
    assert set(embedded(*servers)) == set(TEXTS)
    assert set(twice) == set(servers[1].embedded()[1]), "those of the request that it failed"
    (sentence,) = pool.said
    assert sentence.startswith(f"Ollama at {servers[1].url} is left out (")
    assert sentence.endswith("; it is tried again after 5 minutes.")


@pytest.mark.parametrize("fault", ["hang"])
def test_a_server_that_hangs_is_left_out_and_others_do_its_texts(
    pool: Pool, servers: list[OllamaApi], fault: str
) -> None:
    prove_all(pool, servers)
    servers[2].poison = {"": fault}
    hold(*servers[:2], until=lambda: embedded(servers[2]).total() > 0)
    assert right(pool)
    assert [batch for batch in servers[2].embedded() if batch != [CONTROL_TEXT]] == servers[2].embedded()[:1]
    assert pool.said == [f"Ollama at {servers[2].url} is left out ({pool._members[2].reason}); it is tried again after 5 minutes."]  # fmt: skip
    assert f"no answer within {pool.seconds:g} s" in pool.said[0]


def spoil(api: OllamaApi, fault: str) -> None:
    if fault == "turned":
        api.turned = True
    elif fault == "no model":
        api.models.clear()
    elif fault == "another version":
        api.models["all-minilm:latest"] = "0" * 64
    else:
        api.poison = {"": fault}


WRONG = {
    "turned": "its vectors are not those of the first server",
    "no model": "no model all-minilm",
    "another version": "another version of the model",
    "narrow": "shape",
    "nan": "NaN",
    "fewer": "vectors for",
    "500": "runner",
    "400": "input length",
    "html": "",
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_server_with_another_model_makes_no_vector(pool: Pool, servers: list[OllamaApi], fault: str) -> None:
    spoil(servers[2], fault)
    assert right(pool, TEXTS[:60])
    assert right(pool, TEXTS[60:90])
    assert embedded(servers[2]).total() == 0
    assert embedded(*servers) == Counter(TEXTS[:90])
    while pool._members[2].busy:  # its proof may take longer than the others' work
        pool.embed_documents(TEXTS[:1])
    (sentence,) = pool.said
    assert WRONG[fault] in sentence
    assert sentence.endswith("after 5 minutes.") == (fault == "500"), "what is wrong is not tried again"


@pytest.mark.parametrize("fault", [fault for fault in WRONG if fault != "another version"])
def test_the_first_server_may_be_the_wrong_one(pool: Pool, servers: list[OllamaApi], fault: str) -> None:
    spoil(servers[0], fault)
    assert pool.identity.digest == f"sha256:{DIGEST}"
    assert right(pool, TEXTS[:60])
    assert embedded(servers[0]).total() == 0
    assert len(pool.said) == 1


@pytest.mark.parametrize("fault", ["narrow", "nan", "500", "400", "drop"])
def test_a_server_that_becomes_wrong_has_nothing_refused(pool: Pool, servers: list[OllamaApi], fault: str) -> None:
    prove_all(pool, servers)
    spoil(servers[1], fault)
    hold(servers[0], servers[2], until=lambda: embedded(servers[1]).total() > 0)
    assert right(pool)
    assert len(pool.said) == 1


@pytest.mark.parametrize("fault", ["400", "drop", "500", "nan"])
def test_a_text_that_every_server_refuses_costs_only_itself(pool: Pool, servers: list[OllamaApi], fault: str) -> None:
    prove_all(pool, servers)
    for api in servers:
        api.poison = {"poison": fault}
    texts = [*TEXTS[:50], "poison", *TEXTS[50:80]]
    answer = pool.embed_documents(texts)
    assert list(answer.refused) == [50]
    assert not answer.vectors[50].any()
    others = np.delete(answer.vectors, 50, axis=0)
    assert np.allclose(others, shipped_model().embed_documents(TEXTS[:80]).vectors, atol=1e-6)
    assert pool.said == [], "no server is to blame"


@pytest.mark.parametrize("fault", ["500", "drop", "nan", "fewer", "hang"])
def test_what_happens_once_costs_neither_a_text_nor_a_server(pool: Pool, servers: list[OllamaApi], fault: str) -> None:
    prove_all(pool, servers)
    for api in servers:
        api.faults = [fault]
    assert right(pool, TEXTS[:1])
    assert pool.said == []


def test_without_any_server_the_reasons_of_all_are_said(pool: Pool, servers: list[OllamaApi]) -> None:
    prove_all(pool, servers)
    for api, fault in zip(servers, ("drop", "no model", "nan"), strict=True):
        spoil(api, fault)
    with pytest.raises(
        EmbeddingError, match=r"No Ollama server can be used \(.*connection.*not found.*NaN.*OLLAMA_URL"
    ):
        pool.embed_documents(TEXTS)
    assert len(pool.said) == 3


def test_a_server_that_was_away_is_tried_again_after_a_pause_and_not_before(
    servers: list[OllamaApi], later: Wait
) -> None:
    port = free_port()
    pool = Pool(f"http://127.0.0.1:{port}", servers[0].url)
    assert right(pool, TEXTS[:60])
    assert "it is tried again after 5 minutes" in pool.said[0]
    with OllamaApi(port=port) as returned:
        later(ollama_pool.AWAY_SECONDS / 2)
        assert right(pool, TEXTS[:60])
        assert (returned.gets, returned.requests) == ([], [])
        later(ollama_pool.AWAY_SECONDS / 2)
        while embedded(returned).total() == 0:
            assert right(pool)
        assert returned.embedded()[0] == list(PROBE_TEXTS[:3]), "it proves itself again first"
        assert pool.said[1:] == [f"Ollama at {returned.url} is used again."]
        pool.close()


def test_a_question_goes_to_the_first_server_alone(pool: Pool, servers: list[OllamaApi]) -> None:
    prove_all(pool, servers)
    assert np.allclose(pool.embed_query("the boiler"), LocalEmbedder().embed_query("the boiler"), atol=1e-6)
    assert [len(api.embedded()) for api in servers] == [1, 0, 0]


@pytest.mark.parametrize("fault", ["500", "drop", "nan"])
def test_a_question_that_fails_goes_to_the_next_and_the_first_is_skipped_for_a_while(
    pool: Pool, servers: list[OllamaApi], later: Wait, fault: str
) -> None:
    prove_all(pool, servers)
    servers[0].faults = [fault]
    for number in range(3):
        pool.embed_query(f"question {number}")
    assert [len(api.embedded()) for api in servers] == [1, 3, 0]
    later(ollama_pool.SKIPPED_SECONDS)
    pool.embed_query("question 3")
    assert [len(api.embedded()) for api in servers] == [2, 3, 0]


def test_a_question_does_not_wait_for_a_server_that_hangs(servers: list[OllamaApi]) -> None:
    pool = Pool(*(api.url for api in servers), hedge_seconds=0.05)
    prove_all(pool, servers)
    servers[0].poison = {"": "hang"}
    vector = pool.embed_query("the boiler")
    assert pool._members[0].reason == "another server answered before it"
    assert np.allclose(vector, LocalEmbedder().embed_query("the boiler"), atol=1e-6)
    asked = len(servers[0].embedded())
    pool.embed_query("the heating")
    assert len(servers[0].embedded()) == asked
    pool.close()


def test_a_question_is_asked_of_a_server_that_has_proven_itself(pool: Pool, servers: list[OllamaApi]) -> None:
    assert pool.identity.digest, "the first has proven itself, the others were not asked"
    servers[1].turned = True
    servers[0].poison = {"": "500"}
    with pytest.raises(EmbeddingError):
        pool.embed_query("the boiler")
    vector = pool.embed_query("the boiler")
    assert np.allclose(vector, LocalEmbedder().embed_query("the boiler"), atol=1e-6)
    assert servers[1].embedded() == [list(PROBE_TEXTS[:3])]
    for api in servers:
        api.poison = {"": "500"}
    for _ in range(2):
        with pytest.raises(EmbeddingError):
            pool.embed_query("the boiler")


@pytest.fixture
def chats(servers: list[OllamaApi]) -> Iterator[OllamaServers]:
    """The servers for chat models; each answers with its number."""
    for number, api in enumerate(servers):
        api.models["llama3.2:latest"] = DIGEST
        api.chat_reply = str(number)
    made = OllamaServers([OllamaServer(api.url, 60.0, Patience(2, 0.01, 0.02)) for api in servers])
    yield made
    made.close()


def chat(chats: OllamaServers) -> str:
    return chats.chat("llama3.2", "Summarise.", {}, 1)


def test_a_chat_model_is_asked_at_the_first_server_that_has_it(chats: OllamaServers, servers: list[OllamaApi]) -> None:
    assert chat(chats) == "0"
    del servers[0].models["llama3.2:latest"]
    assert chat(chats) == "1"
    assert chats.find("llama3.2") == chats.digest("llama3.2") == f"sha256:{DIGEST}"
    assert set(chats.models()) == {"all-minilm:latest", "llama3.2:latest"}


def test_a_chat_server_that_fails_is_followed_by_the_next_and_asked_last_for_a_while(
    chats: OllamaServers, servers: list[OllamaApi], later: Wait
) -> None:
    chats.digest("llama3.2")
    servers[0].faults = ["500"]
    assert [chat(chats), chat(chats)] == ["1", "1"]
    assert len(servers[0].asked()) == 1
    later(ollama_servers.LAST_SECONDS)
    assert chat(chats) == "0"


def test_texts_of_a_model_are_written_by_one_version_of_it(chats: OllamaServers, servers: list[OllamaApi]) -> None:
    assert chat(chats) == "0"
    servers[1].models["llama3.2:latest"] = "0" * 64
    servers[0].poison = {"": "500"}
    assert chat(chats) == "2"
    servers[2].poison = {"": "500"}
    with pytest.raises(EmbeddingError, match=r"another version of llama3\.2"):
        chat(chats)
    assert servers[1].asked() == []


def test_a_request_that_is_refused_is_not_sent_to_another_server(
    chats: OllamaServers, servers: list[OllamaApi]
) -> None:
    servers[0].poison = {"Summarise": "400"}
    with pytest.raises(EmbeddingError, match="input length"):
        chat(chats)
    assert [len(api.asked()) for api in servers] == [1, 0, 0]


def test_a_model_is_missing_only_if_every_server_says_so(servers: list[OllamaApi]) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    both = OllamaServers([OllamaServer(url, 60.0, Patience(attempts=1)) for url in (servers[0].url, away)])
    assert both.find("all-minilm") is not None
    with pytest.raises(EmbeddingError, match="does not answer"):
        both.find("llama3.2")
    assert set(both.models()) == {"all-minilm:latest"}
    both.close()


def test_a_night_uses_all_servers_and_says_which_was_left_out(world: World, servers: list[OllamaApi]) -> None:
    for number, text in enumerate(TEXTS[:120]):
        world.say(f"t{number}", text)
    servers[1].turned = True
    hold(servers[0], until=lambda: embedded(servers[2]).total() > 0)
    urls = ", ".join([*(api.url for api in servers), f"http://127.0.0.1:{free_port()}"])
    done = world.command("hmem-night", "run", EMBEDDER="ollama", OLLAMA_URL=urls)
    manifest = read_manifest((world.memory_dir / "current").resolve())
    assert manifest.embedding is not None
    assert (manifest.embedding.provider, manifest.embedding.digest) == ("ollama", f"sha256:{DIGEST}")
    assert manifest.ledger["not_embedded"] == {}
    made = [sum("note number" in text for batch in api.embedded() for text in batch) for api in servers]
    assert "embedded 120, cached 0" in done.stderr
    assert min(made[0], made[2]) > made[1] == 0
    said = [line for line in done.stderr.splitlines() if line.startswith("Ollama at")]
    assert len(said) == 2
    assert "its vectors are not those of the first server" in " ".join(said)
    assert "it is tried again after 5 minutes" in " ".join(said)


def test_one_url_is_one_server_as_ever(world: World, servers: list[OllamaApi]) -> None:
    one = open_embedder(world.settings(embedder="ollama", ollama_url=servers[0].url))
    several = open_embedder(world.settings(embedder="ollama", ollama_url=f"{servers[0].url},{servers[1].url}"))
    assert (type(one), type(several)) == (OllamaEmbedder, OllamaPool)
    same = open_embedder(world.settings(embedder="ollama", ollama_url=f"{servers[0].url}, {servers[0].url}"))
    assert type(same) is OllamaEmbedder
    for embedder in (one, several, same):
        assert embedder is not None
        embedder.close()
