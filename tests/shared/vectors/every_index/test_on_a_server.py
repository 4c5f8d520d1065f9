"""What every index on a server must do: sweep its own and nothing else, and be away without harm."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable
from shared.vectors import on_server
from shared.vectors.on_server import builder_on, served_names
from shared.vectors.redis import index as redis_index
from tests.support.night.index_world import SAID, MadeUp, finds, make_release, opened


def test_what_no_release_names_is_swept_away(tmp_path: Path, server: tuple[str, Settings], embedder: MadeUp) -> None:
    name, settings = server
    first, second, third = (make_release(settings, tmp_path, [name], SAID, run=run) for run in (1, 2, 3))
    builder = builder_on(settings, name)
    assert builder.left_over([], newest=1) == served_names(first), "a later night may be building one"
    left = sorted([*served_names(first), *served_names(second)])
    assert builder.sweep(served_names(third)) == left
    assert builder.left_over(served_names(third)) == builder.sweep(served_names(third)) == []
    gone = opened(settings, first, name)
    assert not gone.is_available()
    assert not finds(gone)
    with closing(opened(settings, third, name)) as kept:
        assert finds(kept)


@pytest.mark.slow
def test_a_server_that_is_away_costs_the_vectors_and_no_time(
    tmp_path: Path, server: tuple[str, Settings], embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that nobody listens on, and one that takes the call and never answers."""
    name, settings = server
    for module in (on_server, redis_index):
        monkeypatch.setattr(module, "DAY_SECONDS", 3.0)
    release = make_release(settings, tmp_path, [name], SAID)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for away in (_at(settings, port), _at(settings, 1)):
            found = opened(away, release, name)
            assert not found.is_available()
            assert f"the {name} server is not available" in (found.why_not or "")
            assert not finds(found)
            found.close()
            with pytest.raises(IndexServerUnavailable, match=r"does not answer|is not available"):
                builder_on(away, name)
    builder_on(settings, name).sweep([])


def _at(settings: Settings, port: int) -> Settings:
    scheme = {"qdrant_url": "http", "redis_vectors_url": "redis"}
    return settings.changed(**{one: f"{scheme[one]}://127.0.0.1:{port}" for one in scheme})
