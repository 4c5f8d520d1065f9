"""Each of the indexes in turn, with the servers that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from shared.config.kinds import indexes, served
from shared.config.settings import Settings
from shared.vectors.searching import AskingBackend
from tests.support.night.index_world import MadeUp, Said, make_release, opened, settings_for


@pytest.fixture(params=indexes())
def name(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


@pytest.fixture
def settings(tmp_path: Path, name: str) -> Iterator[Settings]:
    with settings_for([name], tmp_path) as made:
        yield made


@pytest.fixture
def backend(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> Iterator[Callable[[Said], AskingBackend]]:
    """An opened backend on a release of what was said."""
    made: list[AskingBackend] = []

    def on(said: Said) -> AskingBackend:
        made.append(opened(settings, make_release(settings, tmp_path, [name], said), name))
        assert made[-1].is_available(), made[-1].why_not
        return made[-1]

    yield on
    for one in made:
        one.close()


@pytest.fixture(params=served())
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Settings]]:
    """The name of an index on a server, and settings that lead there."""
    with settings_for([request.param], tmp_path) as made:
        yield request.param, made
