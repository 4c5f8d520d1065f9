"""`hmem dead`: what the dispatcher could not take is listed, tried again or removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from dispatcher.memory.typed.tags import AnswerTags, Tag, TagKind
from dispatcher.queue.dead_letters import DeadLetter
from dispatcher.queue.refused import USED_ID, dead_letter
from shared.turns.records import MOST_TASK_BYTES, Task
from shared.wire import keys
from tests.support.day.telegram_bot import Stage, staged
from tests.support.machine import wait_for
from tests.support.redis.users import guarded_redis
from tests.support.world import World


@pytest.fixture
def answering(light: World) -> World:
    """The stand-in answers the question of these tests in two words."""
    sample = light.root / "sample.jsonl"
    sample.write_text(json.dumps({"kind": "exchange", "message": "Where is the key?", "answer": "At last."}))
    light.environment |= {"CLAUDE_STAND_IN_SAMPLE": str(sample), "CLAUDE_ENV": "CLAUDE_STAND_IN_SAMPLE"}
    light.environment["CONSOLIDATION_INTERVAL"] = "0.1"
    return light


def poison(world: World, task_id: str = "t1", message: str = "Where is the key?") -> None:
    """A task over which three workers died: the dispatcher sets it aside, and apologises."""
    world.redis.set(keys.attempts(task_id), 3)
    world.enqueue(task_id, message, submitted_at="2026-11-22T10:00:00+00:00")
    running = world.start_dispatcher()
    wait_for(lambda: world.redis.llen(keys.DEAD), "the dead letter")
    running.stop()
    assert "crashed my process 3 times" in json.loads(world.redis.get(keys.result(task_id)) or b"")["output"]
    assert json.loads(world.redis.get(keys.turn(task_id, "user")) or b"")["content"] == message


def listed(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(world.command("hmem", "dead", "--json").stdout)
    return found


def raw_letter(world: World, content: bytes, reason: str = "message is empty") -> str:
    letter = dead_letter(content, reason)  # with the time
    world.redis.rpush(keys.DEAD, letter)
    return DeadLetter.parse(letter).name


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_they_are_listed_and_shown_with_why(light: World) -> None:
    assert listed(light) == []
    assert "no dead letter" in light.command("hmem", "dead").stderr
    assert "(hmem dead)" not in light.status().stdout
    task = b'{"task_id": "t1", "chat_id": 9912, "message": "Where is the key?"}'
    died = {"reason": "its worker died 3 times", "at": "2026-11-22T10:00:00+00:00", "task": task.decode()}
    light.redis.rpush(keys.DEAD, json.dumps(died))
    light.redis.rpush(keys.DEAD, b"no letter at all \xff", dead_letter(b"\xff{", "not UTF-8"))
    first, second, third = listed(light)
    told = {"chat_id": "9912", "task_id": "t1", "kind": "task", "text": "Where is the key?"}
    assert {name: first[name] for name in told} == told
    assert (second["kind"], second["chat_id"], third["reason"]) == ("unreadable", None, "not UTF-8")
    lines = light.command("hmem", "dead", CHAT_TIMEZONE="Europe/Berlin").stdout.splitlines()
    assert lines[0] == f"{first['id']}  2026-11-22 11:00  chat 9912  its worker died 3 times: Where is the key?"
    shown = light.command("hmem", "dead", first["id"][:5]).stdout
    assert f"hmem dead --retry {first['id']}" in shown
    assert shown.endswith("\n\nWhere is the key?\n")
    (unreadable,) = json.loads(light.command("hmem", "dead", second["id"], "--json").stdout)
    assert unreadable["content"].startswith("no letter")
    assert "3 dead letters (hmem dead)" in light.status().stdout
    unknown = light.command("hmem", "dead", "ffff", check=False)
    assert (unknown.returncode, "matches no dead letter" in unknown.stderr) == (24, True)


# ── trying again ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_was_set_aside_is_answered_when_it_is_retried(answering: World) -> None:
    world = answering
    poison(world)
    (letter,) = listed(world)
    assert world.redis.get(keys.done("t1"))
    done = world.command("hmem", "dead", "--retry", letter["id"])
    assert "is back in the queue" in done.stdout
    assert "is not sent to the chat" in done.stdout, "no bot of ours has asked it"
    assert listed(world) == []
    assert not world.redis.exists(keys.done("t1"), keys.attempts("t1"), keys.result("t1"))
    assert world.redis.hgetall(keys.bot_waiting("main")) == {}
    world.start_dispatcher()
    wait_for(lambda: world.redis.get(keys.result("t1")), "the answer")
    assert json.loads(world.redis.get(keys.result("t1")) or b"")["output"] == "At last."
    assert json.loads(world.redis.get(keys.turn("t1", "asst")) or b"")["content"] == "At last."


@pytest.mark.parametrize(("content", "reason", "why"), [
    (b'{"task_id": "t1", "chat_id": "9912"}', "message is missing", "it is not a task that could be answered"),
    (b"\xff", "it is no UTF-8", "it is not a task that could be answered"),
    (b'{"task_id": "t1", "chat_id": "9912", "message": "hello"}', USED_ID, "its task_id belongs to another message"),
    (b'{"task_id": "t1", "chat_id": "9912", "message": "' + b"x" * MOST_TASK_BYTES + b'"}', "too large", "the limit is 262144"),
])  # fmt: skip
def test_what_cannot_be_answered_is_not_retried(light: World, content: bytes, reason: str, why: str) -> None:
    name = raw_letter(light, content, reason)
    done = light.command("hmem", "dead", "--retry", name, check=False)
    assert (done.returncode, why in done.stderr) == (24, True), done.stderr
    assert "1 of 1 dead letters were not retried" in done.stderr
    assert (light.redis.llen(keys.DEAD), light.redis.llen(keys.TASKS)) == (1, 0)


def test_an_id_that_is_another_messages_by_now_stays_that_ones(light: World) -> None:
    name = raw_letter(light, b'{"task_id": "t1", "chat_id": "9912", "message": "hello"}', "its worker died 3 times")
    light.redis.set(keys.done("t1"), Task("t1", "9912", "another one").digest)
    light.redis.set(keys.result("t1"), b"its answer")
    done = light.command("hmem", "dead", "--retry", name, check=False)
    assert (done.returncode, "belongs to another message" in done.stderr) == (24, True)
    assert light.redis.get(keys.result("t1")) == b"its answer"
    assert light.redis.llen(keys.DEAD) == 1


# ── the late answer ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stage(redis_url: str, answering: World) -> Iterator[Stage]:
    with staged(redis_url, answering.root) as made:
        made.world.environment |= answering.environment
        yield made


@pytest.mark.slow
def test_the_person_gets_the_late_answer(stage: Stage) -> None:
    """The bot has brought the apology and waits no more; the retry has it wait again."""
    bot = stage.bot()
    chat = stage.new_chat()
    update = stage.api.say(chat, "Where is the key?")
    task_id = f"tg-4242-{update}"
    wait_for(lambda: stage.redis.llen(keys.TASKS), "the question")
    stage.redis.set(keys.attempts(task_id), 3)
    running = stage.world.start_dispatcher()
    sorry = "Sorry, this message crashed my process 3 times, so I no longer try to answer it."
    stage.shows(chat, f"{sorry} Please rephrase it.")
    wait_for(lambda: not stage.redis.hgetall(keys.bot_waiting("main")), "the bot, which waits for nothing")
    (letter,) = listed(stage.world)
    done = stage.world.command("hmem", "dead", "--retry", letter["id"])
    assert "our bot sends the answer to the chat" in done.stdout
    wait_for(lambda: stage.api.messages(chat)[-1].text == "At last.", "the late answer")
    running.stop()
    bot.stop()


# ── removing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_owners_redis_user_may_do_it(light: World) -> None:
    with guarded_redis(light.root / "guarded") as running, closing(running.client("tester")) as admin:
        for task in ("of-h-cli", "tg-1-2"):
            content = f'{{"task_id": "{task}", "chat_id": "9912", "message": "hello"}}'
            admin.rpush(keys.DEAD, dead_letter(content.encode(), task))
        admin.rpush(keys.DEAD, dead_letter(b"{}", "odd"))
        record = AnswerTags(Task("t1", "9912", ""), "s", [Tag(1, TagKind.REMEMBER, "x")], 1_795_000_000.0).to_json()
        admin.rpush(keys.DEAD, dead_letter(record, "its tags could not be acted on"))
        url = {"REDIS_URL": running.urls["owner"]}
        done = light.command("hmem", "dead", "--retry", "--all", check=False, **url)
        assert "1 of 4 dead letters were not retried" in done.stderr, done.stderr
        assert (admin.llen(keys.TASKS), admin.llen(keys.TAGS), admin.hlen(keys.bot_waiting("main"))) == (2, 1, 1)
        light.command("hmem", "dead", "--drop", "--all", "--yes", check=True, **url)
        assert admin.llen(keys.DEAD) == 0
