"""A night that sends an encrypted release to another host, where each program has a copy of the owner's key in a directory of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shared.errors import ReleaseRefused
from shared.system.keys.encryption_key import EncryptionKey
from tests.support.night.two_hosts import DayHost

SAID = "the boiler code is 4711"
pytestmark = pytest.mark.slow


def key_file(host: DayHost, name: str) -> Path:
    """A copy of the owner's key, in a directory of this program's own."""
    root = host.world.root
    owners = root / "owner" / "encrypt.key"
    if not owners.exists():
        owners.parent.mkdir(mode=0o700)
        EncryptionKey.new().write(owners)
    path = root / name / "encrypt.key"
    path.parent.mkdir(mode=0o700)
    shutil.copyfile(owners, path)
    path.chmod(0o600)
    return path


def words(*folders: Path) -> list[Path]:
    return [one for folder in folders for one in folder.rglob("*") if one.is_file() and b"boiler" in one.read_bytes()]


def give_key_to_receiver(host: DayHost) -> None:
    config = host.folder / "hmem.toml"
    config.write_text(config.read_text() + f'ENCRYPT_KEY_FILE = "{key_file(host, "receiver")}"\n')


def test_an_encrypted_release_goes_to_another_host_and_is_recalled_there(day_host: DayHost) -> None:
    world = day_host.world
    give_key_to_receiver(day_host)
    day, night = key_file(day_host, "day"), key_file(day_host, "night")
    for number in (1, 2):  # the second goes on from the first
        world.say(f"t{number}", f"{SAID}, said on day {number}")
        world.command("hmem-night", "run", **day_host.settings(), ENCRYPT_KEY_FILE=str(night))
        assert (world.memory_dir / "current").readlink() == Path(f"releases/{number}")
    assert words(world.memory_dir, world.night_dir) == []
    world.environment["ENCRYPT_KEY_FILE"] = str(day)
    running = world.start_dispatcher()
    assert SAID in world.command("hmem", "ask", "9912", "What is the boiler code?").stdout
    assert running.stop() == 0
    assert words(world.root / "state") == []
    assert {one.name for one in day.parent.iterdir()} >= {"encrypt.key", "encrypt.key.day.keys"}


def test_a_host_without_the_key_takes_no_encrypted_release(day_host: DayHost) -> None:
    world = day_host.world
    world.say("t1", SAID)
    night = key_file(day_host, "night")
    done = world.command("hmem-night", "run", check=False, **day_host.settings(), ENCRYPT_KEY_FILE=str(night))
    assert done.returncode == ReleaseRefused.exit_code, done.stderr
    assert "ENCRYPT_KEY_FILE is not set" in done.stderr
    assert not (world.memory_dir / "current").exists()
    assert world.redis.exists("hcli:memory:t1:user")
    give_key_to_receiver(day_host)
    world.command("hmem-night", "run", **day_host.settings(), ENCRYPT_KEY_FILE=str(night))
    assert (world.memory_dir / "current").readlink() == Path("releases/1")
