"""How each fault of tests/support/broken/faults.py is made on a sound installation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

from tests.servers.ollama_api import OllamaApi
from tests.support.broken.installation import Installation
from tests.support.machine import script, wait_for
from tests.support.world import BINARIES

Break = Callable[[Installation], AbstractContextManager[object] | None]
HOUR = 3600.0


class Unmakeable(Exception):
    """This host does not let it be broken."""


@contextmanager
def _mode(path: Path, bits: int) -> Iterator[None]:
    before = path.stat().st_mode & 0o777
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def environment(**more: str) -> Break:
    def breaks(host: Installation) -> None:
        host.environment |= more

    return breaks


def config(**more: str) -> Break:
    """Of the redis-server."""

    def breaks(host: Installation) -> None:
        for name, value in more.items():
            host.redis.config_set(name.replace("_", "-"), value)

    return breaks


def queue(host: Installation, count: int) -> None:
    asked = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 600))
    for number in range(count):
        host.enqueue(f"q{number}", "is anybody there?", submitted_at=asked)


def stopped(host: Installation) -> None:
    """The process stands still, and its sign of life is good for half a minute more."""
    assert host.running is not None
    os.kill(host.running.pid, signal.SIGSTOP)
    queue(host, 3)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def damage_segment(host: Installation) -> None:
    segment = host.archive / "seg-1.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"4711", b"4712"))


def stale(host: Installation) -> None:
    last = json.loads(cast(Any, host.redis.get("hcli:mem:night:last")))
    host.redis.set("hcli:mem:night:last", json.dumps(last | {"finished_at": time.time() - 40 * HOUR}))


def dead_letter(host: Installation) -> None:
    """A real one: a task that cannot be read."""
    host.redis.rpush("hcli:tasks", '{"task_id": "broken", "message": 7}')
    wait_for(lambda: host.redis.llen("hcli:mem:dead"), "the dead letter")


def damaged_release(host: Installation) -> None:
    cut((host.memory_dir / "current").resolve() / "lexical" / "1.sqlite")


def redis_down(host: Installation) -> None:
    assert host.server is not None
    host.server.kill()
    host.server.wait()


def wrong_password(host: Installation) -> None:
    host.redis.acl_setuser("dispatcher", enabled=True, passwords=["+right"], keys=["*"], commands=["+@all"])
    host.url = host.url.replace("redis://", "redis://dispatcher:wrong@")


def logged_out(host: Installation) -> None:
    home = host.root / "empty-home"
    home.mkdir()
    host.environment |= {"HOME": str(home), "ANTHROPIC_API_KEY": ""}


def claude_gone(host: Installation) -> None:
    """A CLI that hands over to the real one, while the dispatcher runs."""
    path = script(host.root / "bin" / "claude", f'#!/bin/sh\nexec {BINARIES}/claude "$@"\n')
    host.environment["CLAUDE_BIN"] = str(path)
    assert host.start()
    path.unlink()


def closed_chat(host: Installation) -> AbstractContextManager[None]:
    """The chat's own directory, after a first answer."""
    assert host.ask().code == 0
    return _mode(host.state_dir / "chats" / "9912", 0)


@contextmanager
def full_disk(host: Installation) -> Iterator[None]:
    """A file system of 4 MB under the state directory, filled to the last byte."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(host.state_dir)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise Unmakeable("no file system can be mounted here")
    try:
        assert host.start()
        filler = os.open(host.state_dir / "filler", os.O_WRONLY | os.O_CREAT)
        for size in (1 << 16, 4096, 1):
            try:
                while os.write(filler, b"x" * size):
                    pass
            except OSError:
                continue
        os.close(filler)
        yield
    finally:
        host.end()
        subprocess.run(["umount", "-l", str(host.state_dir)], check=True)


def store_damaged(host: Installation) -> None:
    for path in host.state_dir.glob("day-store.sqlite*"):
        path.unlink()
    (host.state_dir / "day-store.sqlite").write_bytes(b"this is no database " * 400)


def owner_key_missing(host: Installation) -> None:
    """Made by a first forgetting, then lost."""
    host.says("hmem", "owner-key")
    assert (host.night_dir / "owner.pub").exists()
    (host.root / "owner.key").unlink()


def readable_settings(host: Installation) -> None:
    file = host.root / "hmem.toml"
    file.write_text(f'RESULT_HMAC_KEY = "{host.variables()["RESULT_HMAC_KEY"]}"\n')
    file.chmod(0o644)
    host.environment["HMEM_CONFIG"] = str(file)


@contextmanager
def other_embedder(host: Installation) -> Iterator[None]:
    """The night's release is of one version of a model; then another is pulled under its name."""
    with OllamaApi() as api:
        host.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": api.url}
        host.command("hmem-night", "run")
        api.models["all-minilm:latest"] = "0" * 64
        yield


def closes(path: Callable[[Installation], Path], bits: int) -> Break:
    return lambda host: _mode(path(host), bits)
