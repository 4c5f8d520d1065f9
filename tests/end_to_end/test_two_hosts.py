"""Publishing through a real sshd with throw-away keys and the forced command; the dispatcher on a read-only mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.errors import LeaseLost, PublishFailed, ReleaseRefused, SettingsError
from shared.release.manifest import verify
from tests.support.machine import free_port, wait_for
from tests.support.night.archives import texts
from tests.support.night.two_hosts import DayHost
from tests.support.world import World


def test_a_release_goes_over_ssh_and_is_served(day_host: DayHost) -> None:
    world = day_host.world
    world.say("t1", "said on day 1")
    world.command("hmem-night", "run", **day_host.settings())
    assert (world.memory_dir / "current").readlink() == Path("releases/1")
    assert sorted(texts(world)) == ["t1:user#1"]
    assert not list((world.memory_dir / "incoming").iterdir())
    assert world.redis.keys("hcli:memory:*") == []
    stale = day_host.ask("night", "begin 1")
    assert (stale.returncode, "not above the current" in stale.stderr) == (ReleaseRefused.exit_code, True)
    assert day_host.ask("night", "switch 1 999").returncode == LeaseLost.exit_code, "a night without the lease"


@pytest.mark.slow
def test_the_key_can_do_nothing_else(day_host: DayHost) -> None:
    world = day_host.world
    marker = world.root / "marker"
    refused = ["ls", f"touch {marker}", f"begin 1; touch {marker}", f"begin $(touch {marker})", "switch 1", "switch ../../etc 1",
               "verify 1 1 1", "begin -1", "begin 1\ntouch x", "", "rollback"]  # fmt: skip
    for request in refused:
        done = day_host.ask("night", request)
        assert done.returncode == 24, request
        assert "This key allows only" in done.stderr
    for request in (
        "rsync --server --sender -r . /etc/hostname",
        f"rsync --server -r . {world.root}/out",
        f"rsync --server; touch {marker}",
    ):
        assert day_host.ask("night", request).returncode
    assert not marker.exists()
    assert not (world.root / "out").exists()
    rsync = ["rsync", "-e", " ".join(day_host.ssh("night"))]
    (world.root / "evil").write_text("x")
    for destination in ("../evil", f"{world.memory_dir}/releases/9/", f"{world.root}/elsewhere", "/etc/hmem-evil"):
        subprocess.run(
            [*rsync, str(world.root / "evil"), f"{day_host.place}:{destination}"], capture_output=True, check=False
        )
    assert subprocess.run(
        [*rsync, f"{day_host.place}:/etc/hostname", "stolen"], capture_output=True, cwd=world.root, check=False
    ).returncode
    assert not Path("/etc/hmem-evil").exists()
    outside = [p for p in world.memory_dir.rglob("*evil*") if "incoming" not in p.parts]
    assert outside == []
    assert not (world.root / "elsewhere").exists()
    assert not (world.root / "stolen").exists()
    tunnel = [*day_host.ssh("night"), "-W", "127.0.0.1:6379", day_host.place]
    assert subprocess.run(tunnel, capture_output=True, check=False, timeout=600).returncode != 0
    assert day_host.ask("stranger", "begin").returncode == 255


def test_what_is_wrong_with_the_connection_is_one_sentence(light: World) -> None:
    light.say("t1", "something")
    gone = f"ssh -F none -o BatchMode=yes -o ConnectTimeout=2 -p {free_port()} nobody@127.0.0.1"
    target: dict[str, Any] = {"PUBLISH_TARGET": "nobody@127.0.0.1:/data/memory", "RELEASE_COMMAND": gone}
    done = light.command("hmem-night", "run", check=False, **target)
    assert done.returncode == PublishFailed.exit_code
    assert "Check that it is running" in done.stderr
    assert "Traceback" not in done.stderr
    target.pop("RELEASE_COMMAND")
    done = light.command("hmem-night", "run", check=False, **target)
    assert done.returncode == SettingsError.exit_code
    assert "RELEASE_COMMAND" in done.stderr
    assert light.redis.exists("hcli:memory:t1:user")


@contextmanager
def read_only(world: World) -> Iterator[Path]:
    """The memory directory, mounted once more, read-only."""
    mounted = world.root / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "--bind", str(world.memory_dir), str(mounted)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(mounted)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (mounted / "x").touch()
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_vectors_are_served_from_a_read_only_mount(world: World) -> None:
    world.say("t1", "the boiler code is 4711")
    world.night()
    with read_only(world) as mounted:
        running = world.start_dispatcher(HMEM_MEMORY_DIR=str(mounted))
        wait_for(lambda: b"vectors=yes" in running.log.read_bytes(), "the vectors")
        answer = world.command("hmem", "talk", "9912", "--say", "the heating password").stdout
        assert "the boiler code is 4711" in answer
        assert running.stop() == 0
    verify((world.memory_dir / "current").resolve())
