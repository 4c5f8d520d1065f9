"""A journal on another host, through rsync and a real sshd: brought there, fetched back, and rewritten there too."""

from __future__ import annotations

import getpass
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.delivery.journal.state import read_journal
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import free_port, wait_for
from tests.support.night.two_hosts import SSHD


@dataclass
class OtherHost:
    """`folder` is over there; `server` its sshd."""

    folder: Path
    command: list[str]
    log: Path
    server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(self.command, stderr=log, start_new_session=True)

    def stop(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(60)
            self.server = None

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))


@pytest.fixture
def other(host: LossyHost, tmp_path: Path) -> Iterator[OtherHost]:
    if SSHD is None:
        pytest.fail("sshd is not installed. Run scripts/setup --dev (or: apt-get install openssh-server).")
    keys, port = tmp_path / "keys", free_port()
    keys.mkdir(mode=0o700)
    for name in ("host", "ours"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
    shutil.copyfile(keys / "ours.pub", keys / "authorized_keys")
    (keys / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized_keys\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "StrictModes no\nPidFile none\nLogLevel ERROR\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    folder = tmp_path / "over-there"
    folder.mkdir()
    options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes"
    host.world.environment |= {
        "JOURNAL": f"{getpass.getuser()}@127.0.0.1:{folder}", "JOURNAL_SSH": f"ssh -F none {options} -i {keys}/ours -p {port}",
    }  # fmt: skip
    made = OtherHost(folder, [SSHD, "-D", "-e", "-f", str(keys / "sshd_config")], keys / "log")
    made.start()
    ssh = [*host.world.environment["JOURNAL_SSH"].split(), f"{getpass.getuser()}@127.0.0.1", "true"]
    wait_for(lambda: subprocess.run(ssh, capture_output=True, check=False).returncode == 0, "sshd")
    yield made
    made.stop()


def brought(host: LossyHost, other: OtherHost, task: str) -> None:
    """Wait until the other host has the answer of a task, and all else."""
    wait_for(lambda: host.redis.exists(f"hcli:mem:done:{task}"), "the answer")
    wait_for(lambda: f"hcli:memory:{task}:asst" in read_journal(other.folder).turns, "the transfer")
    wait_for(lambda: host.reported()["entries"] == 0, "nothing to be left")


def test_a_host_that_lost_everything_fetches_its_journal(host: LossyHost, other: OtherHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "said before the fire")
    brought(host, other, "t0")
    turns = host.turns()
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    host.world.start_dispatcher()
    assert host.turns() == turns


def test_restore_day_fetches_the_journal_onto_an_empty_host(host: LossyHost, other: OtherHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "/memory add the boiler is in the cellar")
    host.world.enqueue("t1", "said before the fire")
    brought(host, other, "t1")
    turns = host.turns()
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    found = json.loads(host.world.command("hmem", "restore", "--day", "--json").stdout)
    assert (found["put_back"]["turns"], found["store"] > 0, found["damaged"]) == (len(turns), True, 0)
    assert host.turns() == turns
    shown = host.world.command("hmem", "memory", "list", "9912").stdout
    assert "the boiler is in the cellar" in shown


def test_another_host_that_is_away_delays_nothing_and_is_reported(host: LossyHost, other: OtherHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "while it is there")
    brought(host, other, "t0")
    other.stop()
    host.world.enqueue("t1", "while it is away")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t1"), "the answer")
    wait_for(lambda: host.reported()["error"], "the report")
    found = json.loads(host.world.status("--json").stdout)["second_copy"]
    assert (found["kind"], found["entries"] > 0, "rsync" in found["error"]) == ("journal", True, True)
    other.start()
    brought(host, other, "t1")
    assert host.reported()["error"] is None


def test_an_empty_spool_never_takes_the_place_of_a_full_journal(host: LossyHost, other: OtherHost) -> None:
    """The other host cannot be asked at the start: so no journal is begun, and nothing is sent, until it can."""
    host.world.start_dispatcher()
    host.world.enqueue("t0", "said before the fire")
    brought(host, other, "t0")
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    other.stop()
    host.world.start_dispatcher()
    host.world.enqueue("t1", "answered all the same")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t1"), "the answer")
    other.start()
    wait_for(lambda: host.redis.exists("hcli:memory:t0:asst"), "what was lost to come back")
    brought(host, other, "t1")


def test_what_is_forgotten_goes_from_the_other_host_too(host: LossyHost, other: OtherHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "my password is heronplanet")
    brought(host, other, "t0")
    assert b"heronplanet" in other.content()
    host.world.command("hmem", "forget", "--matching", "heronplanet", "--yes", "--later", check=False)
    wait_for(lambda: b"heronplanet" not in other.content(), "the other host to be without it")


def test_a_forgetting_that_cannot_reach_the_other_host_stays_unfinished(host: LossyHost, other: OtherHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "my password is heronplanet")
    brought(host, other, "t0")
    host.kill_dispatchers()
    other.stop()
    done = host.world.command("hmem", "forget", "--matching", "heronplanet", "--yes", "--json", check=False)
    [record] = json.loads(done.stdout)
    assert not record["complete"]
    assert any("the journal still has it" in one for one in record["pending"])
    other.start()
    done = host.world.command("hmem", "forget", "--resume", "--json", check=False)
    assert b"heronplanet" not in other.content()
    assert not any("journal" in one for one in json.loads(done.stdout)[0]["pending"])
