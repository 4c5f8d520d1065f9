"""`hmem talk`: a bot for a terminal, and one message of a script."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from contextlib import suppress
from threading import Thread

import pytest

from shared.turns.records import dumps, loads_object
from shared.turns.signed import RESULT_BYTES, PartialAnswer, Result
from shared.wire import keys
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import BINARIES, SECRET, Dispatcher, World


@pytest.mark.slow
def test_hmem_talk_is_the_bot_in_one_line(light: World, dispatcher: Dispatcher) -> None:
    done = light.command("hmem", "talk", "-100123", "--say", "hello", "--json")
    answer = json.loads(done.stdout)
    assert ("stand-in" in answer["output"], answer["error"]) == (True, False)
    other = {"RESULT_HMAC_KEY": "another-key-of-another-bot"}
    done = light.command("hmem", "talk", "9912", "--say", "x", "--timeout", "30", check=False, **other)
    assert done.returncode == 23
    assert "Set the same RESULT_HMAC_KEY on both sides" in done.stderr


@pytest.mark.slow
def test_hmem_talk_waits_past_junk_for_the_true_answer(light: World, bot: Bot) -> None:
    asking = subprocess.Popen(
        [str(BINARIES / "hmem"), "talk", "9912", "--say", "hello", "--timeout", "60"],
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
def test_hmem_talk_refuses_what_is_too_long_before_it_is_queued(light: World) -> None:
    done = light.command("hmem", "talk", "9912", "--say", "x" * 300_000, check=False)
    assert done.returncode == 24
    assert "the limit is 262144" in done.stderr
    assert light.redis.llen("hcli:tasks") == 0


def test_without_a_terminal_it_is_said_once_that_claude_is_not_reached(light: World) -> None:
    arguments = [str(BINARIES / "hmem"), "talk", "--say", "hello"]
    asking = subprocess.Popen(
        arguments,
        env=light.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: light.redis.llen("hcli:tasks"), "the message")
    name = json.loads(light.redis.lindex("hcli:tasks", 0) or b"")["task_id"]
    light.redis.set(keys.partial(name), PartialAnswer("console", 1, "", "retrying").to_json(SECRET, name))
    time.sleep(1)
    light.redis.set(keys.result(name), Result.sign(SECRET, name, "Hello.", "2026-11-22T10:00:00+00:00").to_json())
    said, noted = asking.communicate(timeout=60)
    assert said == "Hello.\n"
    assert noted.count("note: Claude cannot be reached; trying again…") == 1


def test_only_true_is_an_error_and_the_signature_is_not_over_it() -> None:
    """h-cli's dispatcher writes no such field, h-cli's bot reads none; whoever puts one there changes only how `hmem talk` ends."""
    signed = loads_object(Result.sign(SECRET, "t1", "yes", "2026-01-01T00:00:00+00:00").to_json())
    assert "error" not in signed
    for value, error in ((True, True), ("yes", False), (None, False)):
        read = Result.verified(SECRET, "t1", dumps(signed | {"error": value}))
        assert (read.output, read.error) == ("yes", error)


class Terminal:
    """`hmem talk` in a terminal, and what that shows."""

    def __init__(self, world: World) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [str(BINARIES / "hmem"), "talk"],
            env=world.variables(TERM="xterm"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = ""
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while part := os.read(self._ours, 4096):
                self.shown += part.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, text: str) -> None:
        wait_for(lambda: text in self.shown, f"{text!r} on the terminal")


def test_a_conversation_streams_and_ends(light: World) -> None:
    terminal, redis = Terminal(light), light.redis
    terminal.shows("> ")
    terminal.type("/Model opus\n")
    terminal.shows("/Model is not a command of the terminal")
    terminal.shows("/why - what my last answer was based on")
    terminal.type("what is the code?\n")
    wait_for(lambda: redis.llen("hcli:tasks"), "the message")
    task = json.loads(redis.lindex("hcli:tasks", 0) or b"")
    assert (task["message"], task["chat_id"]) == ("what is the code?", "console")
    terminal.shows("No dispatcher renews its lease")
    name = task["task_id"]
    redis.set(keys.partial(name), PartialAnswer("console", 1, "", "retrying").to_json(SECRET, name))
    terminal.shows("Claude cannot be reached; trying again…")
    redis.set(keys.partial(name), PartialAnswer("console", 2, "The code \x1b[31mis").to_json(SECRET, name))
    terminal.shows("The code \N{REPLACEMENT CHARACTER}[31mis")
    redis.set(keys.result(name), Result.sign(SECRET, name, "It is 4711.", "2026-11-22T10:00:00+00:00").to_json())
    terminal.shows("It is 4711.")
    assert not redis.exists(keys.result(name))
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0
