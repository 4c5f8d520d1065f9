"""Stages with a bot: one of a test's own with a new chat, or one for all tests of a module, each of which takes a chat of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.wire import keys
from tests.support.day.telegram_bot import GROUP, Stage, staged, talking
from tests.support.processes.forked import constant


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        yield made


@pytest.fixture
def chat(stage: Stage) -> int:
    stage.api.heal()
    stage.redis.delete("hcli:tasks", keys.bot_waiting("main"))
    return stage.new_chat()


@pytest.fixture
def group(chat: int) -> int:
    return GROUP - chat % 20


def done(stage: Stage) -> dict[str, Any]:
    """The next task, which is answered."""
    task = stage.pop()
    stage.answer(task["task_id"], "yes")
    stage.quiet()
    return task


def one_bot(limits: dict[str, int] | None = None, **settings: str) -> Any:
    """A module's own fixture `stage`; the bot has these constants of its state."""

    @pytest.fixture(scope="module")
    def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
        with ExitStack() as stack:
            for name, most in (limits or {}).items():
                stack.enter_context(constant(f"dispatcher.bots.telegram.state:{name}", most))
            made = stack.enter_context(staged(redis_url, tmp_path_factory.mktemp("stage")))
            made.bot(**settings)
            yield made

    return stage


def one_talk(**settings: str) -> Any:
    """The same with a dispatcher."""

    @pytest.fixture(scope="module")
    def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
        with talking(redis_url, tmp_path_factory.mktemp("stage"), **settings) as made:
            yield made

    return stage
