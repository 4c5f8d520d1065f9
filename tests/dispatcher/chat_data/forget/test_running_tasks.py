"""`hmem forget` beside dispatchers, nights and the real CLI: nothing that is under way brings back what is forgotten."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.tombstones import Forgotten
from dispatcher.memory.typed.tags import AnswerTags, Tag, TagKind
from shared.turns.records import Task, Tombstone, Turn, dumps
from shared.wire import keys
from tests.dispatcher.chat_data.forget.test_every_layer import in_redis
from tests.dispatcher.chat_data.forget.test_turns_and_text import forgotten
from tests.servers.messages_api import MessagesApi
from tests.support.day.forgetting_world import CANARIES, CHAT, OTHERS, hmem, impatient, result_of
from tests.support.day.hcli_bot import Bot, slow
from tests.support.machine import wait_for
from tests.support.world import World, real_claude


@pytest.mark.slow
def test_what_runs_is_ended_and_what_is_queued_is_answered(light: World) -> None:
    bot = Bot(light.redis)
    running = light.start_dispatcher(CLAUDE_BIN=slow(light), HOME=str(light.root))
    bot.ask(CANARIES[0], 9912)
    task = bot.send(f"slow: {CANARIES[0]}", 9912)
    wait_for((light.root / "child").exists, "the answer to begin")
    queued = bot.send(f"queued: {CANARIES[0]}", 9912)
    record = forgotten(light, f"--chat={CHAT}")
    assert record["layers"]["redis: tasks"] == {"answered": 1, "ended": 1}
    assert result_of(light, queued) == "This message was forgotten before it was answered."
    assert in_redis(light, "zanzibar") == []
    assert not light.redis.exists(f"hcli:memory:{task}:user")
    assert bot.ask("what was said?", 9912) == "ok", "the chat is free, and is remembered again"
    light.redis.rpush("hcli:tasks", dumps({"task_id": queued, "chat_id": CHAT, "message": f"queued: {CANARIES[0]}"}))
    wait_for(lambda: not light.redis.llen("hcli:tasks") and not light.redis.hlen("hcli:mem:busy"), "the retry")
    assert not light.redis.exists(f"hcli:memory:{queued}:user"), "it is not run again"
    assert running.stop() == 0


def test_an_answer_that_comes_after_the_tombstone_is_covered(light: World) -> None:
    """A worker that lives finishes its task while it is waited for, and dates the answer later."""
    task = dumps({"task_id": "late", "chat_id": CHAT, "message": CANARIES[0]})
    light.redis.sadd("hcli:mem:workers", "w")
    light.redis.set("hcli:mem:lease:w", "1")
    light.redis.hset("hcli:mem:inflight:w", "w:1", task)

    def finish() -> None:
        wait_for(lambda: light.redis.exists(keys.cancel("late")), "its end to be asked for")
        light.say("late", CANARIES[1], chat_id=CHAT, role="asst", timestamp=time.time() + 60)
        light.redis.hdel("hcli:mem:inflight:w", "w:1")
        light.redis.delete("hcli:mem:lease:w")

    worker = threading.Thread(target=finish)
    worker.start()
    record = forgotten(light, f"--chat={CHAT}")
    worker.join()
    assert len(record["stones"]) == 2
    assert in_redis(light, "жираф") == []
    assert Forgotten(light.root / "state").covers(Turn("late", "asst", CHAT, "", time.time() + 60))


@pytest.mark.slow
def test_a_task_that_does_not_end_is_named(light: World) -> None:
    light.environment["PUBLISH_WAIT"] = "0.1"  # that worker takes up no release
    light.redis.sadd("hcli:mem:workers", "w", "dead")
    light.redis.set("hcli:mem:lease:w", "1")
    light.redis.hset("hcli:mem:inflight:w", "w:1", dumps({"task_id": "stuck", "chat_id": CHAT, "message": CANARIES[0]}))
    light.redis.hset(
        "hcli:mem:inflight:dead", "dead:1", dumps({"task_id": "left", "chat_id": CHAT, "message": CANARIES[1]})
    )
    light.redis.hset("hcli:mem:busy", CHAT, "dead:1")
    done = impatient(light, "forget", f"--chat={CHAT}", "--yes", "--json", seconds=0.1)
    (record,) = json.loads(done.stdout)
    assert (done.returncode, record["complete"]) == (28, False)
    assert "task stuck of chat 9912 is still being answered" in record["pending"][0]
    assert result_of(light, "left").startswith("This message was forgotten")
    assert not light.redis.hexists("hcli:mem:busy", CHAT)
    status = json.loads(light.command("hmem", "status", "--json").stdout)
    assert status["forgetting"] == [record["id"]]
    findings = json.loads(light.command("hmem", "doctor", "--json", check=False).stdout)["findings"]
    (found,) = (finding for finding in findings if finding["name"] == "forgetting")
    assert (found["state"], record["id"] in found["sentence"]) == ("warning", True)
    light.redis.hdel("hcli:mem:inflight:w", "w:1")
    light.redis.delete("hcli:mem:lease:w")
    assert hmem(light, "forget", "--resume").returncode == 0
    assert in_redis(light, "zanzibar") == []


def test_consolidation_brings_nothing_back(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone that comes while it embeds, sums up, or acts on a tag."""
    day = DayMemory(light.settings(), nullcontext)
    turn = Turn("t", "user", CHAT, CANARIES[0], time.time() - 5, None, "s")

    def stone() -> None:
        day.forgotten.add(Tombstone("erase-1", CHAT, time.time(), erase=True))

    store = day.turns.store

    def forgotten_meanwhile(turns: Sequence[Turn]) -> None:
        stone()
        store(turns)

    monkeypatch.setattr(day.turns, "store", forgotten_meanwhile)
    day.upkeep.store_turns([turn])
    assert list(day.turns.every()) == []
    day.turns.store([turn])
    day.upkeep.summarise_session(CHAT, "s", [turn])
    assert list(day.summaries.every()) == []
    tag = Tag(1, TagKind.REMEMBER, CANARIES[0])
    task = Task("t", CHAT, CANARIES[0])
    day.requests.act(AnswerTags(task, "s", [tag], time.time() - 5))
    assert list(day.memories.every()) == []
    day.requests.act(AnswerTags(Task("later", CHAT, "x"), "s", [tag], time.time() + 5))
    assert [memory.text for memory in day.memories.every()] == [CANARIES[0]]
    day.close()


def test_a_hiding_tombstone_lets_the_other_tags_of_its_exchange_be_acted_on(light: World) -> None:
    day = DayMemory(light.settings(), nullcontext)
    day.forgotten.add(Tombstone("f-1", CHAT, time.time(), turn_ids=frozenset({"t:user", "t:asst"})))
    day.requests.act(AnswerTags(Task("t", CHAT, "x"), "s", [Tag(1, TagKind.REMEMBER, "likes walnuts")], time.time()))
    assert [memory.text for memory in day.memories.every()] == ["likes walnuts"]
    day.close()


@pytest.mark.slow
def test_what_the_real_cli_keeps(light: World) -> None:
    """Its transcript of this chat goes; that of another chat, filed beside it under the same name, stays; nothing is found after."""
    with MessagesApi(lambda _: CANARIES[1]) as api:
        light.environment |= real_claude(api.url, TMPDIR=str(light.root / "tmp"), CONSOLIDATION_INTERVAL="1")
        (light.root / "tmp").mkdir()
        running = light.start_dispatcher()
        light.command("hmem", "talk", "console:a_b", "--say", CANARIES[0])
        light.command("hmem", "talk", "console:a-b", "--say", OTHERS[0])
        light.command("hmem", "memory", "add", "console:a_b", CANARIES[0])
        light.command("hmem", "talk", "console:a_b", "--say", "and again")
        assert running.stop() == 0
    kept = [path for path in (light.root / ".claude" / "projects").rglob("*.jsonl") if OTHERS[0] in path.read_text()]
    assert len(kept) == 1
    before = kept[0].read_bytes()
    holding = [path for path in light.root.rglob("*") if path.is_file() and b"zanzibar" in path.read_bytes()]
    assert [path for path in holding if ".claude/projects" in str(path)]
    done = hmem(light, "forget", "--chat=console:a_b", "--yes", "--json")
    (record,) = json.loads(done.stdout)
    assert record["layers"]["claude: transcripts"]["removed"] >= 1
    left = [path for path in light.root.rglob("*") if path.is_file() and b"zanzibar" in path.read_bytes()]
    assert left == []
    assert record["complete"], record
    assert kept[0].read_bytes() == before
