"""The page's open memory: let go when nobody needs it, and never waited for without end; what pages leave on the disk is removed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from dispatcher.features.web import reader as reading
from dispatcher.features.web.pages import forget
from dispatcher.features.web.reader import Reader
from dispatcher.features.web.requests import uploads
from dispatcher.features.web.tests.conftest import Site
from shared.errors import StoreUnavailable
from shared.release.manifest import current_release
from shared.release.retention import in_use
from tests.support.machine import wait_for
from tests.support.world import World


@pytest.fixture
def reader(talked: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.05)
    with closing(Reader(talked.settings())) as made:
        yield made


def read(reader: Reader) -> None:
    with reader.memory() as memory:
        assert memory.release() is not None


def held(world: World) -> bool:
    """Whether some process keeps the current release from being removed."""
    release = current_release(world.memory_dir)
    assert release is not None
    return in_use(release)


def test_a_release_is_let_go_when_nobody_asks(reader: Reader, talked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read(reader)
    time.sleep(0.3)
    assert held(talked)
    monkeypatch.setattr(reading, "IDLE_SECONDS", 0.1)
    wait_for(lambda: not held(talked), "the release to be closed")
    read(reader)


def test_a_request_that_waits_too_long_says_so(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.1)
    entered, leave = threading.Event(), threading.Event()

    def slow() -> None:
        with reader.memory():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=slow)
    thread.start()
    assert entered.wait(60)
    with pytest.raises(StoreUnavailable, match="Another page"), reader.memory():
        pass
    leave.set()
    thread.join()
    read(reader)


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


def test_one_preview_at_a_time(site: Site) -> None:
    visitor = site.visitor()
    visitor.get("/forget")
    assert forget._PREVIEWING.acquire(blocking=False)
    try:
        assert "Another preview" in visitor.post("/forget/preview", 400, what="matching", text="4711")
    finally:
        forget._PREVIEWING.release()
    assert "would be erased" in visitor.post("/forget/preview", what="matching", text="4711")


def test_a_file_that_the_disk_has_no_room_for_is_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor()
    visitor.get("/import")
    monkeypatch.setattr("dispatcher.features.web.app.shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    answer = visitor.client.post("/import/upload", data={"form-token": visitor.token}, files={"file": ("a", b"x" * 99)})
    assert answer.status_code == 400
    assert "not enough room" in answer.text


def test_with_a_damaged_release_memories_can_still_be_changed(site: Site, talked: World) -> None:
    release = current_release(talked.memory_dir)
    assert release is not None
    (release / "manifest.json").chmod(0o600)
    (release / "manifest.json").write_bytes(b"{}")
    visitor = site.visitor()
    visitor.get("/chat", chat="9912")
    assert "Saved as number 2" in visitor.post("/chat/add", chat="9912", text="The cellar is damp")
    assert "cannot be read" in visitor.get("/chat/talk", chat="9912")
