"""A night's host that joins a day host from nothing, through real sshds: one line there, one line back, and a night."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shared.delivery.joining import answer_in, line_of
from shared.errors import InstallationIncomplete, InvalidInput
from tests.support.machine import free_port
from tests.support.night.two_hosts import sshd
from tests.support.processes import forked
from tests.support.processes.installing import script
from tests.support.world import BINARIES, World

SYSTEM_PATH = f"{BINARIES}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass
class TwoHomes:
    """The homes of two hosts; the day's one has an installation."""

    world: World
    day: Path
    night: Path
    port: int
    path: str = SYSTEM_PATH
    variables: dict[str, str] = field(default_factory=dict)

    def hmem(self, *words: str) -> subprocess.CompletedProcess[str]:
        """On the day host."""
        return self._run(self.day, "hmem", *words)

    def hmem_night(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """On the night's host."""
        return self._run(self.night, "hmem-night", *words, given=given)

    def join(self, line: str = "", port: int | None = None) -> subprocess.CompletedProcess[str]:
        return self.hmem_night("join", f"127.0.0.1:{port or self.port}", *([line] if line else []))

    def admit(self) -> str:
        """What the first run of `join` says is to be run, run there; the line that it prints."""
        key = self.join().stderr.partition("hmem admit '")[2].partition("'")[0]
        done = self.hmem("admit", key, "--host-keys", f"{self.world.root}/ssh/host.pub")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _run(self, home: Path, program: str, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        variables = {"HOME": str(home), "PATH": self.path, "HMEM_CONFIG": str(home / ".config/hmem/hmem.toml")}
        command, variables = [str(BINARIES / program), *words], variables | self.variables
        if not given:
            return forked.run(command, 600, variables)
        return subprocess.run(
            command, env=variables, input=given, capture_output=True, text=True, timeout=600, check=False
        )


@pytest.fixture
def homes(light: World) -> Iterator[TwoHomes]:
    day, night = light.root / "day", light.root / "gpu"
    (day / ".config/hmem").mkdir(parents=True, mode=0o700)
    night.mkdir()
    light.memory_dir.mkdir(mode=0o700)
    (day / ".config/hmem/hmem.toml").write_text(
        f'REDIS_URL = "{light.url}"\nHMEM_MEMORY_DIR = "{light.memory_dir}"\nHMEM_STATE_DIR = "{light.root}/state"\n'
        f'HMEM_NIGHT_DIR = "{light.root}/no-night"\nEMBED_MODEL = "all-minilm"\nCHAT_TIMEZONE = "Europe/Berlin"\nNIGHT_INDEXES = "none"\n'
    )
    (day / ".config/hmem/hmem.toml").chmod(0o600)
    (light.root / "ssh").mkdir(mode=0o700)
    with sshd(light.root / "ssh", day / ".ssh/authorized_keys", HOME=str(day)) as port:
        yield TwoHomes(light, day, night, port)


def test_a_night_on_a_second_host_joined_from_nothing(homes: TwoHomes, tmp_path: Path) -> None:
    world = homes.world
    world.say("t1", "The boiler shows the code F28.")
    first = homes.join()
    assert first.returncode == InstallationIncomplete.exit_code
    assert "No line was given. Run that command there, then:" in first.stderr
    line = homes.admit()
    joined = homes.hmem_night("join", f"127.0.0.1:{homes.port}", given=f"{line}\n")
    assert joined.returncode == 0, joined.stderr
    crontab = "into the crontab:\n0 3 * * * HMEM_CONFIG="
    for said in ("✓ verbs", "✓ Redis", "✓ delivery", crontab, "Joined; the settings"):
        assert said in joined.stdout
    assert not list((world.memory_dir / "incoming").iterdir()), "the trial was thrown away"
    assert not list((world.memory_dir / "releases").iterdir())
    assert world.redis.get("hcli:mem:night:run") == b"0", "the day host knows that nights are made elsewhere"
    settings = homes.night / ".config/hmem/hmem.toml"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert 'CHAT_TIMEZONE = "Europe/Berlin"' in settings.read_text()

    night = homes.hmem_night("run")
    assert night.returncode == 0, night.stderr
    assert (world.memory_dir / "current").readlink() == Path("releases/1")
    assert world.redis.keys("hcli:memory:*") == []
    assert (homes.night / ".local/share/hmem/night/archive/seg-1.jsonl").exists()
    assert not (world.root / "no-night").exists()
    assert "F28" in homes.hmem("search", "9912", "boiler code").stdout

    before, public = settings.read_text(), (homes.night / ".config/hmem/night-ssh/key.pub").read_text()
    calls = tmp_path / "calls"
    folder = script(tmp_path / "bin", "systemctl", [f'echo "$@" >>{calls}']).parent
    script(folder, "loginctl", [f'echo "$@" >>{calls}'])
    homes.path = f"{folder}:{SYSTEM_PATH}"  # systemd runs here now
    again = homes.join(line)
    assert again.returncode == 0, again.stderr
    assert "by hmem-night.service" in again.stdout
    unit = (homes.night / ".config/systemd/user/hmem-night.service").read_text()
    assert f"ExecStart={BINARIES}/hmem-night schedule" in unit
    of_user = [f"--user {words}" for words in ("daemon-reload", "enable hmem-night", "restart hmem-night")]
    assert calls.read_text().splitlines()[1:] == [*of_user, "enable-linger"]
    assert (settings.read_text(), (homes.night / ".config/hmem/night-ssh/key.pub").read_text()) == (before, public)
    assert (homes.day / ".ssh/authorized_keys").read_text().count("\n") == 1
    assert (world.memory_dir / "current").readlink() == Path("releases/1")


def test_what_is_wrong_is_one_sentence_with_its_cure(homes: TwoHomes) -> None:
    def refused(code: int, why: str, line: str, port: int | None = None) -> None:
        done = homes.join(line, port)
        assert (done.returncode, why in done.stderr) == (code, True), done.stderr
        assert "Traceback" not in done.stderr
        assert settings.read_text() == before if settings.exists() else not before, "nothing was written"

    settings, before = homes.night / ".config/hmem/hmem.toml", ""
    incomplete = InstallationIncomplete.exit_code
    assert "not the key that hmem-night join prints" in homes.hmem("admit", "ssh-rsa AAAA").stderr
    line = homes.admit()
    refused(InvalidInput.exit_code, "Copy the whole line", line[:-7])
    refused(incomplete, "Connection refused", line, free_port())
    answer = answer_in(line)
    stranger = answer["host_keys"][0][:-6] + "AAAAAA"
    refused(incomplete, "another sshd answers there", line_of(answer | {"host_keys": [stranger]}))
    allowed = homes.day / ".ssh/authorized_keys"
    allowed.unlink()
    refused(incomplete, "Run hmem admit there", line)
    before = "# Written by hmem init; yours to change.\n"
    settings.write_text(before)
    refused(InvalidInput.exit_code, "has set up a day host here", line)
