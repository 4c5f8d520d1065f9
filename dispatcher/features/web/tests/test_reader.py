"""The page's open memory: let go when nobody needs it, and never waited for without end; what pages leave on the disk is removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from dispatcher.features.web import reader as reading
from dispatcher.features.web.reader import Reader
from dispatcher.features.web.requests import uploads
from dispatcher.features.web.tests.conftest import Site
from shared.release.manifest import current_release
from tests.support.world import World


@pytest.fixture
def reader(talked: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.05)
    with closing(Reader(talked.settings())) as made:
        yield made


def read(reader: Reader) -> None:
    with reader.memory() as memory:
        assert memory.release() is not None


def test_what_is_older_than_a_day_is_removed(talked: World) -> None:
    state = talked.settings().hmem_state_dir
    (state / "web-uploads").mkdir()
    old, new = state / "web-uploads" / ("a" * 32), state / "web-uploads" / ("b" * 32)
    left = state / "web-export-left"
    left.mkdir()
    for path in (old, new, left / "chat.zip"):
        path.write_bytes(b"words")
    before = time.time() - uploads.KEPT_SECONDS - 1
    for path in (old, left):
        os.utime(path, (before, before))
    uploads.remove_old(talked.settings())
    assert [path.name for path in (state / "web-uploads").iterdir()] == [new.name]
    assert not left.exists()


def test_with_a_damaged_release_memories_can_still_be_changed(site: Site, talked: World) -> None:
    release = current_release(talked.memory_dir)
    assert release is not None
    (release / "manifest.json").chmod(0o600)
    (release / "manifest.json").write_bytes(b"{}")
    visitor = site.visitor()
    visitor.get("/chat", chat="9912")
    assert "Saved as number 2" in visitor.post("/chat/add", chat="9912", text="The cellar is damp")
    assert "cannot be read" in visitor.get("/chat/talk", chat="9912")
