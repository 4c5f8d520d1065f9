"""`hmem ask`: the bot in one line."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from shared.turns.signed.results import RESULT_BYTES, Result
from shared.wire import keys
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import BINARIES, SECRET, Dispatcher, World


@pytest.mark.slow
def test_hmem_ask_is_the_bot_in_one_line(light: World, dispatcher: Dispatcher) -> None:
    done = light.command("hmem", "ask", "-100123", "hello", "--json")
    answer = json.loads(done.stdout)
    assert ("stand-in" in answer["output"], answer["error"]) == (True, False)
    other = {"RESULT_HMAC_KEY": "another-key-of-another-bot"}
    done = light.command("hmem", "ask", "9912", "x", "--timeout", "30", check=False, **other)
    assert done.returncode == 23
    assert "Set the same RESULT_HMAC_KEY on both sides" in done.stderr


@pytest.mark.slow
def test_hmem_ask_waits_past_junk_for_the_true_answer(light: World, bot: Bot) -> None:
    asking = subprocess.Popen(
        [str(BINARIES / "hmem"), "ask", "9912", "hello", "--timeout", "60"],
        env=light.variables(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: bot.redis.llen("hcli:tasks"), "the message")
    task = json.loads(bot.redis.lindex("hcli:tasks", 0) or b"")["task_id"]
    bot.redis.rpush(keys.result(task), "a list")
    time.sleep(1)
    bot.redis.delete(keys.result(task))
    bot.redis.set(keys.result(task), b"x" * (RESULT_BYTES + 1))
    time.sleep(1)
    cut = Result.sign(SECRET, task, "No: too high", "a tail:2026-11-22T10:00:00+00:00")
    bot.redis.set(keys.result(task), cut.to_json())
    time.sleep(1)
    assert asking.poll() is None, "it still waits"
    running = light.start_dispatcher()
    assert "stand-in" in asking.communicate(timeout=600)[0]
    assert asking.returncode == 0
    assert not bot.redis.exists(keys.result(task))
    running.stop()


@pytest.mark.slow
def test_hmem_ask_refuses_what_is_too_long_before_it_is_queued(light: World) -> None:
    done = light.command("hmem", "ask", "9912", "x" * 5000, check=False, TASK_BYTES="4096")
    assert done.returncode == 24
    assert "the limit is 4096 (TASK_BYTES)" in done.stderr
    assert light.redis.llen("hcli:tasks") == 0
