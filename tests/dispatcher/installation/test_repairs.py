"""`hmem doctor --fix`: each repair on a real fault, shown before it is done, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from shared.errors import InvalidInput
from tests.support.machine import answers, free_port, wait_for
from tests.support.world import BINARIES


@pytest.fixture
def lax_redis(tmp_path: Path) -> Iterator[Redis]:
    """One that evicts and writes no append-only file, with a settings file of its own."""
    port = free_port()
    conf = tmp_path / "redis.conf"
    conf.write_text(
        f'port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsave ""\nmaxmemory-policy allkeys-lru\nappendonly no\n'
    )
    with subprocess.Popen(["redis-server", str(conf)], stdout=subprocess.DEVNULL) as server:
        client: Redis = Redis.from_url(f"redis://127.0.0.1:{port}/0", decode_responses=True)
        wait_for(lambda: answers(client), "redis-server to start")
        yield client
        client.close()
        server.terminate()


class Host:
    def __init__(self, root: Path, client: Redis) -> None:
        self.root = root
        self.settings = root / "hmem.toml"
        self.settings.write_text(
            f'REDIS_URL = "redis://127.0.0.1:{client.connection_pool.connection_kwargs["port"]}/0"\nRESULT_HMAC_KEY = "{"k" * 32}"\n'
            f'HMEM_STATE_DIR = "{root / "state"}"\nHMEM_MEMORY_DIR = "{root / "memory"}"\nHMEM_NIGHT_DIR = "{root / "night"}"\n'
            'EMBEDDER = "none"\n'
        )
        self.settings.chmod(0o600)
        for name in ("state", "memory", "night"):
            (root / name).mkdir(mode=0o700)

    def doctor(self, *words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        variables = {"HMEM_CONFIG": str(self.settings), "PATH": f"{BINARIES}:/usr/bin:/bin", "HOME": str(self.root)}
        return subprocess.run(
            [str(BINARIES / "hmem"), "doctor", *words], env=variables, input=answer, capture_output=True, text=True, timeout=600, check=False
        )  # fmt: skip


@pytest.fixture
def host(tmp_path: Path, lax_redis: Redis) -> Host:
    return Host(tmp_path, lax_redis)


def test_redis_is_made_to_keep_everything_also_after_a_restart(host: Host, lax_redis: Redis) -> None:
    done = host.doctor("--fix", "--yes")
    assert "Redis has maxmemory-policy allkeys-lru" in done.stderr
    assert "Redis has appendonly no" in done.stderr
    assert lax_redis.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
    written = (host.root / "redis.conf").read_text()
    assert "appendonly yes" in written
    assert "maxmemory-policy noeviction" in written
    again = host.doctor("--fix", "--yes")
    assert "Nothing here can be repaired" in again.stderr


def test_nothing_is_changed_before_a_yes(host: Host, lax_redis: Redis) -> None:
    done = host.doctor("--fix", answer="n\n")
    assert done.returncode == 1
    assert "to repair: Redis has maxmemory-policy" in done.stderr
    host.settings.chmod(0o644)
    host.doctor()
    assert host.doctor("--yes").returncode == InvalidInput.exit_code, "it means nothing alone"
    assert host.settings.stat().st_mode & 0o777 == 0o644
    assert lax_redis.config_get("maxmemory-policy")["maxmemory-policy"] == "allkeys-lru"
    assert lax_redis.config_get("appendonly")["appendonly"] == "no"


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_a_settings_file_is_closed_to_others(host: Host, mode: int) -> None:
    host.settings.chmod(mode)
    host.doctor("--fix", answer="y\ny\ny\n")
    assert host.settings.stat().st_mode & 0o027 == 0, "others neither write nor, since it holds secrets, read"


def test_directories_are_closed_to_others_and_no_link_is_followed(host: Host) -> None:
    outside = host.root / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    (host.root / "state" / "chats").symlink_to(outside)
    (host.root / "state").chmod(0o777)
    (host.root / "night" / "archive").mkdir()
    (host.root / "night" / "archive").chmod(0o770)
    done = host.doctor("--fix", "--yes")
    assert done.stderr.count("take that right from them") == 2
    assert (host.root / "state").stat().st_mode & 0o022 == 0
    assert (host.root / "night" / "archive").stat().st_mode & 0o022 == 0
    assert outside.stat().st_mode & 0o777 == 0o777


def test_a_file_that_others_may_have_changed_is_not_trusted_without_a_look(host: Host) -> None:
    host.settings.chmod(0o666)
    host.doctor("--fix", "--yes")
    assert host.settings.stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for others")
def test_a_directory_that_becomes_a_link_before_the_answer_changes_nothing_of_roots(host: Host) -> None:
    from dispatcher.installation.repairs import _close

    state, roots = host.root / "state", host.root / "roots"
    roots.mkdir(mode=0o700)
    os.chown(state, 31_001, 31_001)
    (state / "chats").symlink_to(roots)
    with pytest.raises(OSError):
        _close(state, state / "chats")
    assert roots.stat().st_mode & 0o777 == 0o700
