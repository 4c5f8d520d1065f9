"""Consolidation in this process, a round at a time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import pytest

from dispatcher.memory import embedder
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.context import Context
from dispatcher.queue.consolidation import rounds
from dispatcher.queue.consolidation.chat_turns import ChatTurns
from dispatcher.queue.consolidation.rounds import MOST_TRIES, Consolidator, hasten, scheduled
from shared.config.settings import Settings
from shared.turns.records import Tombstone
from tests.servers.ollama_api import OllamaApi
from tests.support.day.talking import CHAT, kept, outbox, stored, summaries, waiting
from tests.support.machine import free_port
from tests.support.world import World

Rounds = tuple[DayMemory, Consolidator]


@pytest.fixture
def consolidating(world: World) -> Iterator[Rounds]:
    """Consolidation in this process, a round at a time."""
    with closing(DayMemory(settings_of(world), nullcontext)) as day:
        yield day, Consolidator(day, world.redis, "worker")


def settings_of(world: World) -> Settings:
    return world.settings(memory_deadline_ms=10_000)


def asked(day: DayMemory, question: str) -> Context:
    return assemble(PromptRequest(CHAT, question), day.settings, None, day)


@pytest.mark.slow
def test_an_embedder_that_is_down_costs_vectors_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "RETRY_SECONDS", 0.0)
    port = free_port()
    world.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": f"http://127.0.0.1:{port}", "OLLAMA_TIMEOUT": "5"}
    with closing(DayMemory(settings_of(world), nullcontext)) as day:
        consolidator = Consolidator(day, world.redis, "worker")
        waiting(world, "t1", "My daughter's recital is in the Saint Cecilia chapel.")
        consolidator.round()
        assert not world.redis.llen(f"hcli:mem:unconsolidated:{CHAT}")
        assert "Saint Cecilia" in asked(day, "When is the recital in the chapel?").text
        assert "Saint Cecilia" not in asked(day, "Where does my kid play her concert?").text, "no word in common"
        with OllamaApi(port=port) as api:
            consolidator.round()
            assert "Saint Cecilia" in asked(day, "Where does my kid play her concert?").text
            for number in range(3):
                waiting(world, f"n{number}", f"The plumber of street {number} fixed the leaking tap.")
            api.faults = ["500"] * 50
            consolidator.round()
            consolidator.round()
            assert "plumber of street 1" in asked(day, "Which plumber of which street fixed it?").text
            api.faults = []
            consolidator.round()
            consolidator.round()
        vectors = {one.turn.task_id: one.embedding for one in day.turns.newest(CHAT, 10)}
        assert all(vectors.values()), "what failed was asked for again"
        assert len(vectors) == 4


def test_an_answer_during_a_round_has_the_next_one_right_after_it(
    consolidating: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, consolidator = consolidating
    monkeypatch.setattr(rounds, "SOON_SECONDS", 0.1)
    running, may_end, again = threading.Event(), threading.Event(), threading.Event()

    def slow_step() -> None:
        if running.is_set():
            again.set()
        running.set()
        may_end.wait(20)

    monkeypatch.setattr(consolidator, "_promote", slow_step)

    async def answer_meanwhile() -> None:
        scheduler = scheduled(consolidator, 3600)
        scheduler.start()
        assert await asyncio.to_thread(running.wait, 20)
        hasten(scheduler, consolidator)
        hasten(scheduler, consolidator)
        assert len(scheduler.get_jobs()) == 2, "the last answer counts"
        await asyncio.sleep(0.5)  # its time comes while the first round runs
        assert not again.is_set()
        may_end.set()
        assert await asyncio.to_thread(again.wait, 20)
        scheduler.shutdown(wait=False)

    asyncio.run(answer_meanwhile())


def test_nobody_is_reminded_of_a_goal_that_was_replaced(world: World, consolidating: Rounds) -> None:
    day, consolidator = consolidating
    soon, made = time.time() + 1800, time.time() - 2 * 86_400
    goal, _ = day.remembering.add(CHAT, MemoryType.GOAL, "goal is to weigh 70 kg", now=made, deadline=soon)
    day.remembering.add(CHAT, MemoryType.GOAL, "goal is to weigh 65 kg", now=made + 1, deadline=soon, replaced=[goal])
    consolidator.round()
    (reminder,) = outbox(world)
    assert "65 kg" in json.dumps(reminder)
    old, new = day.memories.list(CHAT)
    assert (old.reminded_at, bool(new.reminded_at)) == (None, True)
    day.memories.delete(CHAT, new.memory_id)
    consolidator.round()
    assert "70 kg" in json.dumps(outbox(world)), "valid again before its time"


@pytest.mark.parametrize("hidden", [frozenset({"t1:user"}), None])
def test_tags_of_a_message_that_was_hidden_meanwhile_are_not_carried_out(
    light: World, hidden: frozenset[str] | None
) -> None:
    """None: the whole chat was. An import hands facts over hours after it has read them, and a store may be away as long."""
    forgotten = Forgotten(settings_of(light).hmem_state_dir)
    forgotten.add(Tombstone("hiding", CHAT, time.time(), turn_ids=hidden))
    with closing(DayMemory(settings_of(light), nullcontext)) as day:
        for number, chat in ((1, CHAT), (2, "77")):
            tag = {"number": 1, "kind": "REMEMBER", "text": f"the safe {number} opens with 4711", "options": {}}
            about = {"task_id": f"t{number}", "chat_id": chat, "session": "", "said_at": 1.0}
            light.redis.rpush("hcli:mem:tags", json.dumps(about | {"tags": [tag]}))
        Consolidator(day, light.redis, "worker").round()
        assert light.redis.llen("hcli:mem:tags") == 0
        assert [len(day.memories.list(chat)) for chat in (CHAT, "77")] == [0, 1]


@pytest.mark.slow
def test_what_can_never_be_done_holds_nothing_up(light: World) -> None:
    with closing(DayMemory(settings_of(light), nullcontext)) as day:
        consolidator = Consolidator(day, light.redis, "worker")
        good = {"task_id": "t1", "chat_id": CHAT, "session": "s", "said_at": 1.0}
        tag = {"number": 1, "kind": "REMEMBER", "text": "the dog is called Alba", "options": {}}
        light.redis.rpush("hcli:mem:tags", "{", json.dumps(good), json.dumps(good | {"tags": [tag]}))
        light.redis.hset("hcli:mem:spent:odd", mapping={"session": "s", "tokens": "many"})
        waiting(light, "odd", "something", chat_id="odd")
        waiting(light, "even", "The heron came.", chat_id="even")
        for _ in range(2 * MOST_TRIES):
            consolidator.round()
        assert [text for _, text in kept(light)] == ["the dog is called Alba"]
        assert light.redis.llen("hcli:mem:tags") == 0
        dead = [json.loads(raw) for raw in light.redis.lrange("hcli:mem:dead", 0, -1)]
        assert [letter["task"] for letter in dead] == ["{", json.dumps(good)]
        assert stored(light, "even") == [("even:user", "The heron came.")]
        assert stored(light, "odd") == [("odd:user", "something")]
        assert light.redis.smembers("hcli:mem:chats") == set(), "and is not tried for ever"


def test_an_old_summary_is_found_until_the_release_has_its_turns(light: World) -> None:
    with closing(DayMemory(settings_of(light), nullcontext)) as day:
        consolidator = Consolidator(day, light.redis, "worker")
        ago = time.time() - 2 * 86_400
        for number in range(12):
            text, turns = f"- the wedding talk number{number} of Paula", (f"w{number}:user",)
            day.summaries.store(SessionSummary(CHAT, f"s{number}", text, ago, ago + number, ago, turns))
        consolidator.round()
        assert {summary.tier for summary in summaries(light)} == {"long"}
        found = asked(day, "What about the wedding talk number7 of Paula?")
        assert "the wedding talk number7 of Paula" in found.text
        assert found.used[0].chunk.turn_ids == ("w7:user",)


def test_a_lease_is_one_consolidators_at_a_time_and_given_back_by_its_holder_only(light: World) -> None:
    key = f"hcli:mem:consolidating:{CHAT}"
    with closing(DayMemory(settings_of(light), nullcontext)) as day:
        one, other = (ChatTurns(day, light.redis, name) for name in ("one", "other"))
        with one.lease(CHAT) as mine:
            with other.lease(CHAT) as theirs, other.lease("77") as elsewhere:
                assert (mine, theirs, elsewhere) == (True, False, True)
            raw: Any = light.redis.get(key)
            assert raw.startswith(b"one:")
            assert 0 < light.redis.ttl(key) <= 60
        assert not light.redis.exists(key)
        with one.lease(CHAT):
            light.redis.delete(key)  # it took too long
            with other.lease(CHAT) as theirs:
                assert theirs
                light.redis.set(key, raw := b"other:2")
        assert light.redis.get(key) == raw
        waiting(light, "t1", "The heron came.")
        consolidator = Consolidator(day, light.redis, "one")
        consolidator.round()
        assert stored(light) == [], "a round leaves the chat to its holder"
        assert light.redis.llen(f"hcli:mem:unconsolidated:{CHAT}") == 1
        light.redis.delete(key)
        consolidator.round()
        assert stored(light) == [("t1:user", "The heron came.")]


def test_turns_get_their_vectors_when_nobody_asks_and_are_found_by_words_until_then(
    world: World, consolidating: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "EMBED_SECONDS", 0.2)
    day, consolidator = consolidating

    def vectors() -> dict[str, bool]:
        return {one.turn.task_id: one.embedding is not None for one in day.turns.newest(CHAT, 10)}

    waiting(world, "t1", "My daughter's recital is in the Saint Cecilia chapel.")
    with day.questions.reading():
        consolidator.round()
        assert vectors() == {"t1": False}, "somebody asks"
        assert "Saint Cecilia" in asked(day, "When is the recital in the chapel?").text
        assert not day.questions.wait_until_quiet(0.01)
    monkeypatch.setattr(rounds, "EMBED_SECONDS", 60.0)
    consolidator.round()
    assert vectors() == {"t1": True}
    assert "Saint Cecilia" in asked(day, "Where does my kid play her concert?").text
    monkeypatch.setattr(rounds, "EMBED_SECONDS", 0.2)
    waiting(world, "t2", "The plumber fixed the leaking tap.")
    with day.questions.reading():
        consolidator.round()
        assert vectors() == {"t1": True, "t2": False}
        assert "plumber" in asked(day, "What did the plumber fix?").text, "beside a turn that has a vector"
