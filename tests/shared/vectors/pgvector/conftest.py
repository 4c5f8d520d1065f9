"""An installation on the PostgreSQL of this run of tests (HMEM_TEST_PGVECTOR_URL: on that one)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared.config.settings import Settings, load_settings
from shared.release.manifest import PGVECTOR
from shared.vectors.base import Checked, Corpus
from shared.vectors.pgvector.index import PgvectorBuilder
from shared.vectors.pgvector.server import connected
from tests.support.stores import pgvector_settings

if TYPE_CHECKING:
    from shared.vectors.pgvector.server import Connection


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with pgvector_settings() as told:
        yield load_settings(hmem_state_dir=tmp_path / "state", **told)


@pytest.fixture
def looking(settings: Settings) -> Iterator[Connection]:
    """A connection of the test's own, which sees our tables."""
    with connected(settings, 30) as connection:
        yield connection


@pytest.fixture
def build(settings: Settings, tmp_path: Path) -> Callable[..., Path]:
    """Build and check a release; returns the file that names it."""

    def made(corpus: Corpus, run: int) -> Path:
        place = tmp_path / str(run) / PGVECTOR
        place.parent.mkdir(parents=True)
        builder = PgvectorBuilder(settings, run)
        builder.build(place, corpus)
        wanted = Checked({chat: len(ids) for chat, (ids, _) in corpus.chats.items()})
        assert builder.check(place, tmp_path / "scratch", corpus) == wanted
        return place

    return made
