"""After a forgetting the caches of running processes are dropped, and the receipt says whose."""

from __future__ import annotations

import ast
import gc
import json
import os
import re
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from types import FrameType
from typing import Any

import pytest

from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.tombstones import raise_mark
from dispatcher.prompt.assemble import assemble
from dispatcher.releases.served import ServedRelease
from shared.turns.records import Task, Turn
from shared.wire import keys
from tests.support.day.forgetting_world import CHAT, hmem, impatient
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY, World

#: Functions that keep results for the life of the process, and why no forgetting concerns them.
NO_WORDS = {
    "shared/search/lookup.py:_terms_of_each": "the terms of words in tables of ours",
    "shared/embedding/local/embedder.py:_shared": "the embedder", "shared/vectors/qdrant/server.py:_trusted": "certificates",
    "dispatcher/memory/store/rows.py:_entering": "a statement",
    "dispatcher/memory/store/turns.py:_upsert": "a statement", "dispatcher/memory/typed/tags.py:_markdown": "rules",
    "shared/text/dates/calendar_words.py:_whole": "patterns, by the tables' own words",
    "shared/text/dates/named_times.py:rules": "rules, by language", "shared/text/translations/__init__.py:_catalog": "our own texts",
    "dispatcher/queue/scripts.py:script_text": "scripts of ours", "dispatcher/features/web/render.py:environment": "templates",
    "dispatcher/features/web/render.py:static_url": "hashes of our own files", "dispatcher/features/web/reading/markdown.py:_parser": "the parser",
    "shared/wire/users.py:users": "our own table", "dispatcher/memory/typed/duplicates.py:_counted": "words of the calendar",
    "dispatcher/memory/dates/coming_times.py:_clocks": "our own phrases", "shared/text/dates/named_times.py:_coming_rules": "our own phrases",
    "shared/text/dates/named_times.py:_placeholders": "our own phrases",
    "dispatcher/memory/hooks.py:feature_tables": "our own", "dispatcher/memory/typed/tags.py:tag_kinds": "our own",
    "dispatcher/memory/typed/tags.py:_syntax": "patterns", "shared/config/kinds.py:indexes": "our own", "shared/config/kinds.py:embedders": "our own",
    "shared/hooks.py:features": "our own features", "shared/hooks.py:feature_modules": "our own modules",
    "shared/config/feature_settings.py:feature_settings": "their models", "shared/release/manifest.py:shape": "a model",
    "shared/config/settings.py:setting_meanings": "our own texts", "shared/turns/media.py:_shape": "a model",
    "shared/turns/message_origin.py:_shape": "a model", "dispatcher/chat_data/forget/receipt.py:_places": "our own texts",
}  # fmt: skip


def test_every_cache_of_words_is_one_that_can_be_emptied() -> None:
    found = set()
    for package in ("dispatcher", "shared"):  # a night is a process of its own, which ends
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if re.search(r"@\S*cache\b", text) else ():
                made = [ast.unparse(one).partition("(")[0] for one in getattr(node, "decorator_list", ())]
                if isinstance(node, ast.FunctionDef) and {"cache", "lru_cache"} & {
                    one.rpartition(".")[2] for one in made
                }:
                    found.add(f"{path.relative_to(REPOSITORY)}:{node.name}")
    there = {name for name in NO_WORDS if (REPOSITORY / name.partition(":")[0]).exists()}  # a feature may be taken out
    assert found == there


class Secret:
    """A word that stands in no object of the test's own, so that whoever holds it got it from what was said."""

    def __init__(self) -> None:
        self._mask = secrets.token_bytes(8)
        self._hidden = bytes(a ^ b for a, b in zip(f"q{secrets.token_hex(3)}z".encode(), self._mask, strict=True))

    def word(self) -> str:
        return bytes(a ^ b for a, b in zip(self._hidden, self._mask, strict=True)).decode()

    def holders(self) -> Counter[str]:
        """Types of the objects that hold it in this process, garbage that was not collected among them."""
        found = Counter[str]()
        gc.unfreeze()  # what was there when the tests began is not listed otherwise
        for holder in gc.get_objects():
            if not isinstance(holder, FrameType) and _holds(holder, self.word()):
                found[type(holder).__name__] += 1
        return found


def _holds(holder: Any, word: str) -> bool:
    for one in _atoms(holder):  # noqa: SIM110 - a generator would hold the word itself
        if word in one if isinstance(one, str) else word.encode() in one:
            return True
    return False


def _atoms(holder: Any) -> Iterator[Any]:
    """What an object refers to; of what the collector does not track (a tuple of texts) its parts."""
    left = list(gc.get_referents(holder))
    while left:
        one = left.pop()
        if isinstance(one, str | bytes | bytearray):
            yield one
        elif not gc.is_tracked(one) and isinstance(one, tuple | dict | frozenset):
            left += gc.get_referents(one)


def said(world: World, secret: Secret) -> None:
    """The word in a release, in the day's turns, and in a fact."""
    word = secret.word()
    for number, text in enumerate(
        (f"the {word} sleeps at noon", f"где {word} спит, там тихо", f"{word} " + "again and again " * 20)
    ):
        world.say(f"old-{number}", text, chat_id=CHAT)
    for number in range(12):  # the chat that an opened release is asked about first
        world.say(f"other-{number}", f"another chat about number {number}", chat_id="77")
    world.command("hmem-night", "run")
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.embedder.open()
        day.upkeep.store_turns([Turn("new", "user", CHAT, f"today the {word} was seen", time.time() - 60)])
        day.acting.add(Task("add", CHAT, ""), f"{word} is the name of the heron", time.time())


def asked(world: World, secret: Secret, memory: ServedRelease, day: DayMemory) -> None:
    with memory.reading() as release:
        found = assemble(PromptRequest(CHAT, f"where is the {secret.word()}?", []), world.settings(), release, day)
    assert found.text.count(secret.word()) >= 3, found


@pytest.mark.slow
def test_nothing_that_was_read_is_kept_after_the_mark(world: World) -> None:
    """With the shipped model and its vectors, as an installation has it."""
    secret = Secret()
    said(world, secret)
    world.environment["MEMORY_DEADLINE_MS"] = "5000"
    with ExitStack() as open_:
        memory = open_.enter_context(closing(ServedRelease(world.settings())))
        day = open_.enter_context(closing(DayMemory(world.settings(), memory.reading)))
        memory.refresh()
        day.open()
        for _ in range(2):
            asked(world, secret, memory, day)
        day.repeating(CHAT, f"{secret.word()} is the name")
        kept = secret.holders()
        assert kept["_lru_cache_wrapper"] >= 3, kept
        assert {"Chunk", "Memory", "Turn"} <= set(kept), kept
        cache_dropper = CacheDropper(memory, day)
        cache_dropper.drop_if_due()
        assert set(secret.holders()) >= {"Chunk", "Memory", "Turn"}, "without a mark nothing is dropped"
        cache_dropper.seen = "1"
        cache_dropper.drop_if_due()
        assert secret.holders() == Counter()
        assert (cache_dropper.dropped_for, cache_dropper.due) == ("1", False)
        asked(world, secret, memory, day)


@pytest.mark.slow
def test_a_release_that_cannot_be_opened_again_is_let_go_of(light: World) -> None:
    light.say("t", "the gate code is 4711")
    light.night()
    with closing(ServedRelease(light.settings())) as memory:
        memory.refresh()
        (light.memory_dir / "releases" / "1" / "manifest.json").write_text("{}")
        memory.reopen()
        with memory.reading() as release:
            assert release is None


@pytest.mark.slow
def test_a_question_after_the_mark_is_answered_without_what_was_kept(light: World) -> None:
    """It does not wait for the next sign of life."""
    bot = Bot(light.redis)
    running = light.start_dispatcher()
    bot.ask("hello", 9912)
    mark = raise_mark(light.redis)
    bot.ask("hello again", 9912)
    before, dropped, after = running.log.read_text().partition("the caches are dropped")
    assert (before.count("memory injected"), bool(dropped), after.count("memory injected")) == (1, True, 1)
    assert running.stop() == 0
    again = light.start_dispatcher()
    wait_for(lambda: light.redis.get(lease(light)) == mark.encode(), "one that begins later to have nothing to drop")
    bot.ask("hello", 9912)
    assert "the caches are dropped" not in again.log.read_text()
    assert again.stop() == 0


def lease(world: World) -> str:
    """Of the only dispatcher."""
    names: Any = world.redis.smembers(keys.WORKERS)
    (name,) = names
    return keys.lease(name.decode())


@pytest.mark.slow
def test_the_receipt_says_who_has_dropped_and_who_has_not(light: World) -> None:
    running = light.start_dispatcher()
    Bot(light.redis).ask("what is the gate code?", 9912)
    os.kill(running.process.pid, signal.SIGSTOP)
    light.redis.sadd(keys.WORKERS, "elsewhere-1-of-an-earlier-version")
    light.redis.set(keys.lease("elsewhere-1-of-an-earlier-version"), "1")
    done = impatient(light, "forget", f"--chat={CHAT}", "--yes", "--json", seconds=1.0)
    (record,) = json.loads(done.stdout)
    assert (done.returncode, record["complete"]) == (28, False)
    earlier, stopped = record["pending"]
    assert earlier.startswith("the dispatcher elsewhere-1-of-an-earlier-version has not dropped its caches; restart it")
    assert f"-{running.process.pid}-" in stopped
    os.kill(running.process.pid, signal.SIGCONT)
    light.redis.delete(keys.lease("elsewhere-1-of-an-earlier-version"))
    done = hmem(light, "forget", "--resume")
    assert done.returncode == 0, done
    assert "caches of dispatchers              1 dropped" in done.stdout
    assert "freed memory of running processes" in done.stdout
    assert "the caches are dropped" in running.log.read_text()
    assert running.stop() == 0


def test_the_tools_of_a_client_drop_with_their_next_call(light: World) -> None:
    tools = pytest.importorskip("dispatcher.features.mcp.tools", reason="without the feature")
    light.say("t", "the gate code is 4711")
    light.night()
    with closing(tools.ChatMemory(light.settings(), CHAT)) as memory:

        def release() -> Any:
            assert "4711" in memory.search("gate code", 3, None, None)
            return memory._memory._release

        first = release()
        assert release() is first
        raise_mark(light.redis)
        second = release()
        assert second is not first
        assert release() is second
