"""The release that the dispatcher serves, from its start on."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from dispatcher.answering.conversation.ask_claude import ContextLookup
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.releases import served as module
from shared.hooks import Hooks
from shared.search.recall import OpenRelease
from shared.turns.records import Task
from tests.support.machine import wait_for
from tests.support.world import World


def test_the_first_message_after_a_start_waits_for_the_release(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "The boiler code is 4711.")
    light.night()
    settings, may_open, open_release = light.settings(), threading.Event(), OpenRelease

    def open_slowly(*arguments: object) -> object:
        may_open.wait(60)
        return open_release(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "OpenRelease", open_slowly)
    served = module.ServedRelease(settings)
    day = DayMemory(settings, served.reading)
    day.open()
    core = SimpleNamespace(settings=settings, day=day, served=served)
    lookup = ContextLookup(core, CacheDropper(served, day), Hooks([]))  # type: ignore[arg-type]
    opening = threading.Thread(target=served.refresh)
    opening.start()
    wait_for(lambda: served.refreshing, "the opening to begin")
    threading.Timer(0.3, may_open.set).start()
    task = Task.parse(b'{"task_id":"t2","chat_id":"9912","message":"What is the boiler code?"}')
    try:
        assert "4711" in asyncio.run(lookup.context_of(task, [], None)).text
    finally:
        opening.join()
        day.close()
        served.close()
