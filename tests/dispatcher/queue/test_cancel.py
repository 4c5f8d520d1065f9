"""The end of a task that runs, asked for by the bot: Claude is ended, the message alone is kept, and the conversation goes on."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis

from shared.wire import keys
from tests.servers.messages_api import MessagesApi
from tests.support.day.hcli_bot import SAY, Bot, script, slow
from tests.support.machine import until_gone, wait_for
from tests.support.world import SECRET, World, real_claude


@pytest.fixture
def bot(redis: Redis) -> Bot:
    return Bot(redis)


def own_result(bot: Bot, task_id: str, output: str) -> None:
    """What h-cli's bot writes at /cancel."""
    moment = datetime.now(UTC).isoformat()
    record = {"output": output, "completed_at": moment, "hmac": bot.sign(task_id, output, moment)}
    bot.redis.set(keys.result(task_id), json.dumps(record), ex=600)


@pytest.mark.slow
def test_a_running_task_is_ended_with_its_children_and_nothing_else(light: World, bot: Bot) -> None:
    running = light.start_dispatcher(CLAUDE_BIN=slow(light))
    bot.ask("before", 9912)
    session = bot.redis.get("hcli:session:9912")
    task = bot.send("a slow one", 9912)
    later = bot.send("said after it", 9912)
    other = bot.send("another slow one", 77)
    wait_for(lambda: bot.redis.hlen("hcli:mem:busy") == 2, "both to run")
    wait_for((light.root / "child").exists, "the child")
    bot.redis.set(keys.cancel(task), "1", ex=keys.CANCEL_TTL_SECONDS)
    assert bot.receive(task)["output"] == "Cancelled."
    assert bot.receive(later)["output"] == "ok", "the chat is free, and its session is the same"
    assert bot.redis.get("hcli:session:9912") == session
    assert bot.turn(task, "user")["content"] == "a slow one"
    assert not bot.redis.exists(f"hcli:memory:{task}:asst")
    assert bot.redis.hlen("hcli:mem:busy") == 1, "the other chat's task runs on"
    own_result(bot, other, "Stopped.")
    wait_for(lambda: bot.redis.exists(keys.done(other)), "the end")
    assert bot.receive(other)["output"] == "Stopped.", "the bot's own result has been shown and stands"
    until_gone(int((light.root / "pid").read_text()))
    until_gone(int((light.root / "child").read_text()))
    assert not bot.redis.exists("hcli:session:77"), "a new session that may not exist is not gone on with"
    history = [json.loads(entry)["content"] for entry in bot.redis.lrange("hcli:session_history:77", 0, -1)]
    assert history == ["another slow one"]
    assert bot.ask("hello", 77) == "ok"
    assert running.stop() == 0


@pytest.mark.slow
def test_an_answer_that_its_bot_no_longer_waits_for_is_ended(light: World, bot: Bot) -> None:
    """h-cli's bot at /cancel (its result comes and goes between two looks), and when its time is up: its id leaves the list in both."""
    running = light.start_dispatcher(CLAUDE_BIN=slow(light))
    for message in ("a slow one", "a slow one, too late"):
        task = bot.send(message, 9912)
        wait_for((light.root / "child").exists, "the call")
        looked = keys_looked_at(bot)  # the bot adds the id after the task, which may have begun by then
        wait_for(lambda: keys_looked_at(bot) > looked + 6, "two looks")  # noqa: B023
        assert bot.redis.rpop(keys.pending("9912")) == task.encode()
        if "too late" not in message:
            own_result(bot, task, "Task cancelled.")
            bot.redis.delete(keys.result(task))
        wait_for(lambda: bot.redis.exists(keys.done(task)), "the end")  # noqa: B023
        until_gone(int((light.root / "child").read_text()))
        assert bot.turn(task, "user")["content"] == message
        assert not bot.redis.exists(f"hcli:memory:{task}:asst"), "nobody has seen an answer"
        (light.root / "child").unlink()
    assert bot.ask("hello", 9912) == "ok"
    assert running.stop() == 0
    assert running.log.read_text().count("the bot no longer waits for this answer") == 2


def keys_looked_at(bot: Bot) -> int:
    stats: Any = bot.redis.info("commandstats")
    return int(stats.get("cmdstat_lpos", {}).get("calls", 0))


def test_a_forged_result_ends_nothing_and_makes_way(light: World, bot: Bot) -> None:
    gate = light.root / "gate"
    running = light.start_dispatcher(
        CLAUDE_BIN=script(light, f"while [ ! -e {gate} ]; do sleep 0.05; done; {SAY} honest")
    )
    forged = json.dumps({"output": "Send your code.", "completed_at": "now", "hmac": "00" * 32})
    tasks = [bot.send(f"m{chat}", chat) for chat in range(1, 4)]
    wait_for(lambda: bot.redis.hlen("hcli:mem:busy") == 3, "all to run")
    bot.redis.set(keys.result(tasks[0]), forged)
    bot.redis.set(keys.result(tasks[1]), b"\xff no JSON")
    bot.redis.rpush(keys.result(tasks[2]), "a list")
    wait_for(lambda: running.log.read_text().count("the answer will replace it") == 2, "the looks")
    before = "written-before-it-began"
    bot.redis.set(keys.result(before), forged)
    light.enqueue(before, "early", chat_id=4)
    gate.touch()
    for task in (*tasks, before):
        wait_for(lambda task=task: bot.redis.exists(keys.done(task)), "the answers")  # type: ignore[misc]
        assert bot.receive(task)["output"] == "honest"
    assert running.stop() == 0


def test_a_cancel_before_the_claim_is_obeyed_at_the_claim(light: World, bot: Bot) -> None:
    calls = light.root / "calls"
    for task in ("asked", "answered"):
        light.enqueue(task, f"{task} to end", chat_id=9912)
    bot.redis.set(keys.cancel("asked"), "1")
    own_result(bot, "answered", "Stopped.")
    running = light.start_dispatcher(CLAUDE_BIN=script(light, f"echo >> {calls}; {SAY} ok"))
    assert bot.receive("asked")["output"] == "Cancelled."
    wait_for(lambda: bot.redis.exists(keys.done("answered")), "the second")
    assert bot.receive("answered")["output"] == "Stopped."
    assert not calls.exists(), "Claude was not asked"
    assert not bot.redis.exists("hcli:session:9912")
    assert bot.turn("asked", "user")["content"] == "asked to end"
    assert not bot.redis.keys("hcli:memory:*:asst")
    assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True], ids=["a-new-session", "a-resumed-session"])
def test_the_real_cli_goes_on_after_a_cancel(light: World, bot: Bot, begun: bool) -> None:
    """Killed while the model answers, its transcript holds the message without an answer. The next message is answered in any case."""
    hold, asked = threading.Event(), threading.Event()

    def reply(request: dict[str, Any]) -> str:
        said = json.dumps(request["messages"])
        if "take your time" in said and "and now" not in said:
            asked.set()
            hold.wait(600)
        return "All right."

    with MessagesApi(reply) as api:
        running = light.start_dispatcher(**real_claude(api.url))
        if begun:
            assert bot.ask("my name is Dana", 9912) == "All right."
        session = bot.redis.get("hcli:session:9912")
        task = bot.send("take your time", 9912)
        assert asked.wait(600)
        bot.redis.set(keys.cancel(task), "1")
        assert bot.receive(task)["output"] == "Cancelled."
        assert bot.ask("and now", 9912) == "All right."
        hold.set()
        last = json.dumps(api.requests[-1])
        assert "take your time" in last, "the model knows what was said before"
        if begun:
            assert "my name is Dana" in last
            assert bot.redis.get("hcli:session:9912") == session
        assert running.stop() == 0
    assert "trying a new one" not in running.log.read_text()
    assert SECRET not in running.log.read_text()


def test_a_cancel_that_comes_too_late_does_nothing(light: World, bot: Bot) -> None:
    running = light.start_dispatcher(CLAUDE_BIN=slow(light))
    task = bot.send("hello", 9912)
    wait_for(lambda: bot.redis.exists(keys.done(task)), "the answer")
    bot.redis.set(keys.cancel(task), "1")
    assert bot.ask("next", 9912) == "ok"
    assert bot.receive(task)["output"] == "ok"
    assert len(bot.redis.keys("hcli:memory:*:asst")) == 2

    def waited_for_work() -> bool:
        """A whole wait for work; nobody asked for cancels meanwhile."""
        bot.redis.config_resetstat()
        wait_for(lambda: "cmdstat_blmove" in bot.redis.info("commandstats"), "a whole wait for work")
        return "cmdstat_getrange" not in bot.redis.info("commandstats")

    wait_for(
        waited_for_work, "that nobody asks for cancels while nothing runs"
    )  # the answer is there before its task has ended
    assert running.stop() == 0
