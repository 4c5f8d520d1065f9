"""Bots with a Redis and a Telegram of their own: two for one token, a wrong token, and either server gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.dispatcher.answering.test_redis_outages import OwnRedis
from tests.servers.loopback import Answering, Loopback
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import ALLOWED, Bot, Stage, wait_until
from tests.support.machine import wait_for
from tests.support.world import BINARIES, REPOSITORY, World


@pytest.mark.slow
def test_a_second_bot_waits_until_the_first_one_ends_whatever_its_token(stage: Stage) -> None:
    """Both would bring answers from one queue."""
    chat = stage.new_chat()
    first = stage.bot()
    with TelegramApi() as other:
        foreign, second = Bot(stage.world, other, wait=False), stage.bot(wait=False)
        for waits in (foreign, second):
            wait_for(lambda bot=waits: bot.said("another process is already the bot of this Redis"), "the sentence")  # type: ignore[misc]
        stage.answer(stage.ask(chat, "one"), "from the first")
        stage.shows(chat, "from the first")
        assert not other.called("getUpdates")
        assert foreign.stop() == 0
    assert first.stop() == 0
    wait_for(lambda: second.said("bot started"), "the second bot")
    stage.answer(stage.ask(chat, "two"), "from the second")
    stage.shows(chat, "from the first", "from the second")
    assert not first.said("another process polls")
    assert not second.said("another process polls")
    assert second.stop() == 0


@pytest.mark.parametrize(("more", "words"), [
    ({"TELEGRAM_BOT_TOKEN": ""}, "TELEGRAM_BOT_TOKEN is not set"),
    ({"TELEGRAM_BOT_TOKEN": "no-token-secret"}, "is not a bot token"),
    ({"TELEGRAM_BOT_TOKEN": "1:unknown-secret"}, "does not know this TELEGRAM_BOT_TOKEN"),
    ({"RESULT_HMAC_KEY": ""}, "RESULT_HMAC_KEY is not set"),
])  # fmt: skip
def test_a_wrong_setting_ends_the_bot_with_a_sentence(stage: Stage, more: dict[str, str], words: str) -> None:
    bot = stage.bot(wait=False, **more)
    assert bot.died() == 10
    assert bot.said(words)
    assert not bot.said("secret")
    assert not bot.said("Traceback")


def test_a_token_that_is_revoked_ends_the_bot(stage: Stage) -> None:
    bot = stage.bot()
    stage.api.unauthorized = True
    stage.api.say(stage.new_chat(), "wakes the poll")
    assert bot.died() == 10
    assert bot.said("does not know this TELEGRAM_BOT_TOKEN")
    assert not bot.said(TOKEN)


@contextmanager
def in_container(stage: Stage, root: Path, number: str) -> Iterator[tuple[Path, int]]:
    """A bot in namespaces of its own that look like Docker's container of this id, with `init: true`: its log, and their creator. All is killed."""
    place = root / "containers" / (number * 64)
    place.mkdir(parents=True, exist_ok=True)
    name, init, log = place / "hostname", place / "docker-init", place / f"{time.monotonic_ns()}.log"
    name.write_text(f"{socket.gethostname()}\n")
    init.write_text('#!/bin/sh\n"$@"\n')
    init.chmod(0o755)
    inside = f"mount --bind {name} /etc/hostname && exec {init} hmem telegram"
    command = [*OWN_NAMESPACES, "--kill-child", "--mount-proc", "sh", "-c", inside]
    environment = Bot.settings(stage.world, stage.api)
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            yield log, process.pid
        finally:
            process.kill()


OWN_NAMESPACES = ("unshare", "--map-root-user", "--mount", "--pid", "--fork")


@pytest.mark.slow
def test_a_bot_whose_container_is_started_again_waits_for_no_lease(stage: Stage, tmp_path: Path) -> None:
    """Only the kernel knows Docker here: its init is the first process, and the file of the host's name is the container's."""
    if subprocess.run([*OWN_NAMESPACES, "true"], check=False).returncode:
        pytest.skip("this user may make no namespaces")
    with in_container(stage, tmp_path, "a") as (log, creator):
        wait_for(lambda: "bot started" in log.read_text(), log.read_text)
        first = os.open(f"/proc/{creator}/ns/pid_for_children", os.O_RDONLY)  # keeps its number from the next one
    with in_container(stage, tmp_path, "b") as (another, _):
        wait_for(lambda: "another process is already the bot" in another.read_text(), another.read_text)
        with in_container(stage, tmp_path, "a") as (log, _):
            wait_for(lambda: "bot started" in log.read_text(), log.read_text)
            assert "that process has died; taking over" in log.read_text()
        assert "has died" not in another.read_text(), "of another container nothing is known"
    os.close(first)


class Redirecting(Answering, BaseHTTPRequestHandler):
    """A server in front of Telegram that sends everybody back to where they came from."""

    def do_POST(self) -> None:
        self._body()
        self._send_bytes(307, b"", "text/plain", {"Location": self.path})


def test_a_telegram_that_cannot_be_reached_is_waited_for_and_the_token_stays_out_of_the_log(stage: Stage) -> None:
    """Though the error names the address."""
    with Loopback(Redirecting) as server:
        bot = stage.bot(wait=False, TELEGRAM_API_URL=server.url)
        wait_for(lambda: bot.said("bot(token)/getMe"), "the address")
        assert bot.said("Telegram does not accept a request now")
        assert bot.code is None
        assert not bot.said(TOKEN.partition(":")[2])
        assert bot.stop() == 0


@pytest.mark.slow
def test_while_redis_is_away_nothing_is_confirmed_and_nothing_lost(tmp_path: Path) -> None:
    server = OwnRedis(tmp_path)
    world = World(tmp_path, server.client, f"redis://127.0.0.1:{server.port}/0")
    with TelegramApi() as api:
        stage = Stage(world, api)
        chat = stage.new_chat()
        bot = Bot(world, api)
        try:
            task = stage.ask(chat, "before")
            server.kill()
            update = api.say(chat, "while it is away")
            wait_for(lambda: bot.said("Redis does not answer, trying again"), "the sentence")
            assert api.offset <= update
            server.start()
            assert stage.pop()["message"] == "while it is away"
            stage.confirmed(update)
            stage.answer(task, "first")
            stage.answer(f"tg-4242-{update}", "second")
            stage.shows(chat, "first", "second")
            assert bot.stop() == 0
        finally:
            bot.stop(signal.SIGKILL)
            server.client.close()
            server.kill()


def test_allowed_chats_may_be_empty(stage: Stage) -> None:
    bot = stage.bot(ALLOWED_CHATS="")
    stage.confirmed(stage.api.say(ALLOWED[0], "hello"))
    wait_until(lambda: stage.api.texts(ALLOWED[0]), lambda: "the sentence for strangers")
    assert bot.said("ALLOWED_CHATS is empty")
    assert stage.queued() == []


def test_a_group_that_becomes_a_supergroup_keeps_its_memory_and_all_that_goes_with_it(stage: Stage) -> None:
    """Through a restart of the bot and the loss of Redis, too; ALLOWED_CHATS and everything that is stored have the first number."""
    old, new, text = -5151, -1005151, "@memory_bot the boiler code is 4711"
    settings = {"ALLOWED_CHATS": str(old), "OWNERS": "7"}
    bot, world = stage.bot(**settings), stage.world
    answered, waiting = (stage.ask(old, text, entities=mention(text)) for _ in range(2))
    stage.answer(answered, "Noted.")
    wait_until(lambda: "Noted." in stage.api.texts(old), lambda: str(stage.api.texts(old)))
    stage.api.say(old, None, migrate_to_chat_id=new)
    stage.api.say(new, None, migrate_from_chat_id=old)
    wait_until(lambda: "supergroup" in str(stage.api.texts(new)), lambda: str(stage.api.texts(new)))
    stage.answer(waiting, "Written before, said after.")
    wait_until(lambda: "Written before, said after." in stage.api.texts(new), lambda: str(stage.api.texts(new)))
    stage.push({"id": "r1", "chat_id": str(old), "text": "Reminder: the boiler"})
    wait_until(lambda: "Reminder: the boiler" in stage.api.texts(new), lambda: str(stage.api.texts(new)))
    ada = {"id": 7, "is_bot": False, "first_name": "Ada"}
    zone = stage.api.say(new, "/timezone@memory_bot Europe/Rome", user=ada)
    assert stage.pop()["chat_id"] == old, "what is set and noted there is the first number's"
    stage.confirmed(zone)
    assert bot.stop() == 0
    world.say("t1", "the boiler code is 4711", chat_id=str(old))
    world.night()
    stage.redis.flushall()
    world.command("hmem", "restore", str(world.night_dir / "archive"))
    stage.bot(**settings)
    task = stage.ask(new, text, entities=mention(text))
    assert stage.redis.lrange(f"hcli:pending:{old}", 0, -1) == [task.encode()]
    stage.answer(task, "Still here.")
    wait_until(lambda: "Still here." in stage.api.texts(new), lambda: str(stage.api.texts(new)))
    assert sum("supergroup" in one for one in stage.api.texts(new)) == 1
    shown = world.command("hmem", "search", "--", str(new), "boiler code")
    assert "4711" in shown.stdout
    assert f"The group {new} is stored under its first number, {old}." in shown.stderr
    world.command("hmem", "forget", f"--chat={old}", "--yes")
    assert stage.redis.hexists("hcli:mem:moved", str(old)), "else nobody would know the supergroup again"
    stage.redis.hset("hcli:mem:moved", str(old), '{"to": -1006666}')
    assert "stored under" not in world.command("hmem", "search", "--", "-1006666", "boiler", check=False).stderr, (
        "nobody signed that"
    )


def test_a_bot_starts_soon_stays_small_and_takes_over_at_once_from_one_that_was_killed(
    stage: Stage, tmp_path: Path
) -> None:
    """Processes of their own: one that is forked from the tests has all that these have loaded. Seconds of the processor: the machine may be busy."""
    chat, log = ALLOWED[0], tmp_path / "bot.log"
    environment = Bot.settings(stage.world, stage.api) | {"PYTHONPATH": str(REPOSITORY)}
    for answers in (["one"], ["one", "two"]):
        with log.open("w") as out:
            bot = subprocess.Popen([str(BINARIES / "hmem"), "telegram"], env=environment, stdout=out, stderr=out)
        try:
            wait_for(lambda: "bot started" in log.read_text(), "the bot")
            stage.answer(stage.ask(chat, "a question"), answers[-1])
            stage.shows(chat, *answers)
            used = Path(f"/proc/{bot.pid}/stat").read_text().rpartition(")")[2].split()
            assert sum(map(int, used[11:13])) / os.sysconf("SC_CLK_TCK") < 5, "until it has answered"
            mapped = Path(f"/proc/{bot.pid}/smaps_rollup").read_text().splitlines()
            assert int(next(line for line in mapped if line.startswith("Rss:")).split()[1]) < 100_000, "kB"
        finally:
            bot.kill()
            bot.wait()
    assert "that process has died; taking over" in log.read_text()
