"""Consolidation by running dispatchers: killed in the middle, a store that goes and comes back. Nothing lost, nothing doubled."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dispatcher.memory.store.memories import MemoryType
from dispatcher.prompt.budget import TITLES
from tests.support.day.talking import CHAT, Talk, kept, outbox, owe, quick_talk, stored, summaries, waiting
from tests.support.machine import wait_for
from tests.support.stores import PostgreSQL, postgresql_server
from tests.support.world import Dispatcher, World

FACTS = TITLES["profile"]
GOAL = "I must call the bank."
GOAL_TAG = "Yes.\n[GOAL CODE: call the bank | DEADLINE: today]"


@pytest.fixture
def talk(light: World) -> Talk:
    return quick_talk(light)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql_server() as running:
        yield running


def in_redis(world: World) -> list[str]:
    """Turn ids of what the night will archive."""
    names: Any = world.redis.keys("hcli:memory:*")
    return sorted(name.decode().removeprefix("hcli:memory:") for name in names)


def dies(dispatcher: Dispatcher) -> None:
    wait_for(lambda: dispatcher.process.poll() is not None, "the dispatcher to die at its crash point")
    assert dispatcher.stop() == -signal.SIGKILL


def leases_run_out(world: World) -> None:
    """What passes after 30 and 60 seconds."""
    for key in (*world.redis.keys("hcli:mem:lease:*"), *world.redis.keys("hcli:mem:consolidating:*")):
        world.redis.delete(key)


def sound(dispatcher: Dispatcher) -> None:
    assert dispatcher.stop() == 0
    assert b"Traceback" not in dispatcher.log.read_bytes(), dispatcher.log.read_text()


POINTS = ["consolidation:stored", "consolidation:summarised", "consolidation:reminded", "answering:acted"]


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_any_point_loses_and_doubles_nothing(talk: Talk, point: str) -> None:
    world = talk.world
    talk.will_answer(GOAL, GOAL_TAG)
    owe(world, "water the plants")
    dispatcher = world.start_dispatcher(HMEM_CRASH_AT=point, SESSION_TOKENS="12")
    tasks = [talk.send(message) for message in (GOAL, "The bank has its counter in Mill Street.")]
    dies(dispatcher)
    leases_run_out(world)
    dispatcher = world.start_dispatcher(SESSION_TOKENS="12")
    assert [talk.reply(task) for task in tasks] == ["Yes.", "All right."]
    talk.consolidated()
    wait_for(lambda: not world.redis.exists(f"hcli:session:{CHAT}"), "the session to end")
    wait_for(lambda: outbox(world), "the reminder")
    time.sleep(0.5)  # several rounds more, which must change nothing
    sound(dispatcher)
    ids = [f"{task}:{role}" for task in tasks for role in ("asst", "user")]
    assert Counter(name for name, _ in stored(world)) == Counter(ids)
    assert in_redis(world) == sorted(ids)
    assert kept(world) == [(MemoryType.GOAL, "water the plants"), (MemoryType.GOAL, "call the bank")]
    assert [message["chat_id"] for message in outbox(world)] == [CHAT]
    assert "water the plants" in outbox(world)[0]["text"]
    told = [turn for summary in summaries(world) for turn in summary.turn_ids]
    assert sorted(told) == sorted(set(told)), "a turn is in one summary"
    assert set(ids) == set(told)
    assert world.redis.llen("hcli:mem:tags") == 0
    assert world.redis.hgetall("hcli:mem:busy") == {}


@pytest.mark.slow
def test_a_store_that_goes_and_comes_back(talk: Talk, server: PostgreSQL) -> None:
    world = talk.world
    world.environment["DAY_STORE_URL"] = server.database().replace("postgresql://", "postgresql+psycopg://")
    dispatcher = world.start_dispatcher()
    talk.say("My safe opens with 4711.", "Kept.\n[REMEMBER CODE: the safe opens with 4711]")
    talk.say("My dog is called Alba.", "Kept.\n[REMEMBER CODE: the dog is called Alba]")
    talk.consolidated()
    server.stop()
    try:
        assert talk.say(GOAL, GOAL_TAG) == "Yes."
        assert talk.say("What opens my safe?", "It opens with 4711.") == "It opens with 4711."
        reply = talk.say("Forget that.", "As you wish.\n[FORGET CODE: the safe opens with 4711]")
        assert reply.startswith("As you wish.")
        assert "as soon as it is" in reply, "it says that this comes later"
        assert "Sorry" in talk.say("/memory")
        assert world.redis.llen("hcli:mem:tags") == 2
        assert world.redis.llen(f"hcli:mem:unconsolidated:{CHAT}") == 6
    finally:
        server.start()
    wait_for(lambda: not world.redis.llen("hcli:mem:tags"), "the tags to be acted on")
    talk.consolidated()
    owe(world, "water the plants")
    wait_for(lambda: outbox(world), "the reminder")
    after = talk.asked("What do you know about my safe?")
    assert not after.resumed, "the conversation that tells it has ended"
    assert "4711" not in after.whole
    assert "the dog is called Alba" in after.part(FACTS)
    assert "call the bank (by" in after.part(FACTS)
    time.sleep(0.5)
    sound(dispatcher)
    goals = [(MemoryType.GOAL, "call the bank"), (MemoryType.GOAL, "water the plants")]
    assert kept(world) == [(MemoryType.FACT, "the dog is called Alba"), *goals]
    assert not [text for _, text in stored(world) if "4711" in text]
    assert len(outbox(world)) == 1
    assert world.redis.llen("hcli:mem:dead") == 0


def _has(world: World, said: str) -> bool:
    return said in [text for _, text in stored(world)]


def test_what_was_said_is_stored_soon_and_not_with_the_next_regular_round(talk: Talk) -> None:
    world = talk.world
    dispatcher = world.start_dispatcher(CONSOLIDATION_INTERVAL="3600")
    wait_for(lambda: not world.redis.exists(f"hcli:mem:consolidating:{CHAT}"), "the first round")
    for message in ("The boiler is a Vaillant.", "The plumber is called Petra."):  # the second has a round of its own
        talk.say(message)
        wait_for(partial(_has, world, message), "the round after the answer")
    sound(dispatcher)


@pytest.mark.slow
def test_what_was_said_a_moment_ago_is_forgotten_too(talk: Talk) -> None:
    """An answer that told it again is not in the store yet when it is to be forgotten."""
    world = talk.world
    dispatcher = world.start_dispatcher(CONSOLIDATION_INTERVAL="3600")
    wait_for(lambda: not world.redis.exists(f"hcli:mem:consolidating:{CHAT}"), "the first round")
    talk.say("My safe opens with 4711.", "Kept.\n[REMEMBER CODE: the safe opens with 4711]")
    talk.say("Tell me again.", "The safe opens with 4711.")
    assert "Forgotten." in talk.say("Forget it.", "Yes.\n[FORGET CODE: the safe opens with 4711]")
    sound(dispatcher)
    dispatcher = world.start_dispatcher()
    talk.consolidated()
    assert "4711" not in talk.asked("What opens the safe?").whole
    sound(dispatcher)
    assert not [text for _, text in stored(world) if "4711" in text]
    world.night()
    release = (world.memory_dir / "current").resolve()
    # With a blank: a hash or a time may have these four digits.
    assert not [path for path in release.rglob("*") if path.is_file() and b" 4711" in path.read_bytes()]


@pytest.mark.slow
def test_without_a_store_there_are_no_tags_and_no_sql(talk: Talk) -> None:
    def loaded(running: Dispatcher) -> bool:
        return "sqlalchemy" in Path(f"/proc/{running.process.pid}/maps").read_text(encoding="utf-8")

    world = talk.world
    answer = "Yes. [REMEMBER CODE: the dog is called Alba]"
    dispatcher = world.start_installed_dispatcher(DAY_STORE_URL="none")
    assert talk.say("My dog is called Alba.", answer) == answer, "no tag: it was not asked for"
    request = talk.asked("And my cat?")
    assert "REMEMBER" not in request.system
    assert "I do not store memories" in talk.say("/memory")
    assert not loaded(dispatcher)
    sound(dispatcher)
    dispatcher = world.start_installed_dispatcher()
    assert talk.say("My cat is called Minka.", "Yes. [REMEMBER CODE: the cat is called Minka]") == "Yes."
    assert "REMEMBER" in talk.requests()[-1].system
    talk.consolidated()
    assert loaded(dispatcher), "the test would see it"
    sound(dispatcher)
    assert [text for _, text in kept(world)] == ["the cat is called Minka"]


@pytest.mark.slow
def test_a_stop_is_graceful_in_the_middle_of_a_round(talk: Talk) -> None:
    world = talk.world
    world.environment |= {"EMBEDDER": "local", "CONSOLIDATION_INTERVAL": "0.1"}
    for number in range(2000):
        text = f"the heron of day {number} came to the pond and stood there"
        waiting(world, f"t{number}", text, chat_id=f"c{number % 8}")
    dispatcher = world.start_dispatcher()
    wait_for(lambda: any(stored(world, f"c{number}") for number in range(8)), "the first chat to be stored")
    sound(dispatcher)
    done = sum(len(stored(world, f"c{number}")) for number in range(8))
    left = sum(world.redis.llen(f"hcli:mem:unconsolidated:c{number}") for number in range(8))
    assert done < 2000, "it was in the middle"
    assert done + left == 2000
    assert world.redis.keys("hcli:mem:consolidating:*") == [], "no lease stays behind"
    dispatcher = world.start_dispatcher(EMBEDDER="none")
    wait_for(lambda: not world.redis.smembers("hcli:mem:chats"), "the rest")
    sound(dispatcher)
    assert sum(len(stored(world, f"c{number}")) for number in range(8)) == 2000
