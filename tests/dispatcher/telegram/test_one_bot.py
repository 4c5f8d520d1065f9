"""Bots with a Redis and a Telegram of their own: two for one token, a wrong token, and either server gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from redis import Redis, RedisError

from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.support.day.telegram_bot import ALLOWED, Bot, Stage, staged, wait_until
from tests.support.machine import free_port, wait_for
from tests.support.world import World


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        yield made


@pytest.mark.slow
def test_a_second_bot_waits_until_the_first_one_ends(stage: Stage) -> None:
    chat = stage.new_chat()
    first = stage.bot()
    second = stage.bot(wait=False)
    wait_for(lambda: second.said("another process is already the bot of this Redis"), "the sentence")
    stage.answer(stage.ask(chat, "one"), "from the first")
    stage.shows(chat, "from the first")
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


@pytest.mark.slow
def test_a_bot_at_another_telegram_waits_too(stage: Stage) -> None:
    """Whatever its token: both would bring answers from one queue."""
    chat, first = stage.new_chat(), stage.bot()
    with TelegramApi() as other:
        second = Bot(stage.world, other, wait=False)
        wait_for(lambda: second.said("another process is already the bot of this Redis"), "the sentence")
        stage.answer(stage.ask(chat, "one"), "from the first")
        stage.shows(chat, "from the first")
        assert not other.called("getUpdates")
        assert second.stop() == 0
    assert first.stop() == 0


def test_a_stray_404_is_tried_again(stage: Stage) -> None:
    chat, bot = stage.new_chat(), stage.bot()
    stage.api.fail("getUpdates", 404, "Not Found")
    stage.answer(stage.ask(chat, "one"), "still there")
    stage.shows(chat, "still there")
    assert bot.stop() == 0


def test_a_token_that_is_revoked_ends_the_bot(stage: Stage) -> None:
    bot = stage.bot()
    stage.api.unauthorized = True
    stage.api.say(stage.new_chat(), "wakes the poll")
    assert bot.died() == 10
    assert bot.said("does not know this TELEGRAM_BOT_TOKEN")
    assert not bot.said(TOKEN)


def test_an_unreachable_telegram_is_waited_for_and_the_token_stays_out_of_the_log(stage: Stage) -> None:
    bot = stage.bot(wait=False, TELEGRAM_API_URL="http://127.0.0.1:1")
    wait_for(lambda: bot.said("Telegram does not accept a request now"), "the sentence")
    assert bot.code is None
    assert bot.stop() == 0
    assert not bot.said(TOKEN)
    assert not bot.said(TOKEN.partition(":")[2])


class Redirecting(BaseHTTPRequestHandler):
    """A server in front of Telegram that sends everybody back to where they came from."""

    def do_POST(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_an_error_that_names_the_address_is_logged_without_the_token(stage: Stage) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bot = stage.bot(wait=False, TELEGRAM_API_URL=f"http://127.0.0.1:{server.server_address[1]}")
        wait_for(lambda: bot.said("bot(token)/getMe"), "the address")
        assert not bot.said(TOKEN)
        assert bot.stop() == 0
        server.shutdown()


class OwnRedis:
    """A redis-server that may be killed and started again, with what it held."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client: Redis = Redis.from_url(self.url)
        self.start()

    def start(self) -> None:
        command = [shutil.which("redis-server") or "redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        more = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", str(self.folder)]
        self.process = subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL)
        wait_for(self._up, "redis-server")

    def _up(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.slow
def test_while_redis_is_away_nothing_is_confirmed_and_nothing_lost(tmp_path: Path) -> None:
    server = OwnRedis(tmp_path)
    world = World(tmp_path, server.client, server.url)
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
