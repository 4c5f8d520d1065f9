"""Stages with a bot: one of a test's own with a new chat, or one for all tests of a module, each of which takes a chat of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.day.telegram_bot import Stage, staged, talking


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        yield made


@pytest.fixture
def chat(stage: Stage) -> int:
    return stage.new_chat()


def one_bot(**settings: str) -> Any:
    """A module's own fixture `stage`."""

    @pytest.fixture(scope="module")
    def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
        with staged(redis_url, tmp_path_factory.mktemp("stage")) as made:
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
