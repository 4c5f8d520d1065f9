"""`hmem init --night-host` as an owner meets it: two homes, a real sshd for each direction, a real Redis and supervisor."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError, RedisError

from tests.support.machine import wait_for
from tests.support.processes.installing import CHAT
from tests.support.processes.two_homes import TwoHomes, install_day, two_homes

pytestmark = pytest.mark.slow  # each installs and starts everything


@pytest.fixture
def hosts() -> Iterator[TwoHomes]:
    with two_homes() as made:
        made.lay_packages()
        install_day(made)
        yield made


def files_below(*places: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for place in places
        for path in place.rglob("*")
        if path.is_file()
        and path.suffix not in (".pid", ".log")
        and "__pycache__" not in path.parts
        and "nights" not in path.parts
    }


def archive(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "archive").glob("*.jsonl")}


def test_the_nights_move_and_come_back(hosts: TwoHomes) -> None:
    before = archive(hosts.day.data / "night")
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    assert "tunnel, night: started (by supervisor)" in output
    assert archive(hosts.data / "night").items() >= before.items(), "and that of the night that ran there"
    assert archive(hosts.day.data / "night.kept") == before, "kept aside"
    assert not (hosts.day.data / "night").exists()
    settings = hosts.config / "hmem.toml"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert "hmem-night-host:" in settings.read_text(), "a Redis user of its own"

    refused = hosts.day.run("run", program="hmem-night")
    assert refused.returncode == 10
    assert "was moved to gpu" in refused.stderr
    assert hosts.day.run("doctor").returncode == 0
    assert "night" not in hosts.control("status")

    hosts.say("The spare key is under the blue pot.")
    night = hosts.there("run")
    assert night.returncode == 0, night.stderr
    assert "blue pot" in hosts.day.run("search", str(CHAT), "where is the spare key").stdout, "the next morning"
    assert "F28" in hosts.day.run("search", str(CHAT), "boiler code").stdout, "and what was known before"

    kept, running = files_below(hosts.config, hosts.day.config, hosts.day.home / ".ssh"), set(hosts.processes())
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    assert files_below(hosts.config, hosts.day.config, hosts.day.home / ".ssh") == kept, "run again it changes nothing"
    assert set(hosts.processes()) == running

    whole = archive(hosts.data / "night")
    code, output = hosts.day.init("--yes", given=False)
    assert code == 0, output
    assert not (hosts.day.data / "night").exists(), "hmem init leaves the nights where they are"
    code, output = hosts.day.init("--undo", "--yes", given=False)
    assert code != 0
    assert "Bring it back first: hmem init --undo --night-host gpu" in output

    code, output = hosts.init("--undo")
    assert code == 0, output
    assert archive(hosts.day.data / "night") == whole
    assert not hosts.program.exists()
    assert not hosts.config.exists()
    assert hosts.processes() == []
    assert "hmem-night-host" not in (hosts.day.home / ".ssh/authorized_keys").read_text()
    hosts.say("The meter reads 4711.")
    night = hosts.day.run("run", program="hmem-night")
    assert night.returncode == 0, night.stderr
    assert "4711" in hosts.day.run("search", str(CHAT), "meter").stdout
    assert "night                            RUNNING" in hosts.control("status")
    assert "nothing to undo" in hosts.init("--undo")[1]


def test_encrypted_nights_move_with_their_key_and_come_back(hosts: TwoHomes) -> None:
    assert hosts.day.run("key", "new").returncode == 0
    key = hosts.day.home / ".config/hmem/keys/encrypt.key"
    with (hosts.day.config / "hmem.toml").open("a") as settings:
        settings.write(f'ENCRYPT_KEY_FILE = "{key}"\n')
    code, output = hosts.day.init("--yes", given=False)
    assert code == 0, output
    night = hosts.day.run("run", program="hmem-night")
    assert night.returncode == 0, night.stderr
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    there = hosts.data / "hmem-keys"
    assert (there.stat().st_mode & 0o777, (there / "encrypt.key").stat().st_mode & 0o777) == (0o700, 0o600)
    assert {one.name for one in there.iterdir() if one.suffix == ".keys"} == {"encrypt.key.night.keys"}
    assert not key.with_name("encrypt.key.night.keys").exists(), "no night destroys keys here any more"
    hosts.say("The spare key is under the blue pot.")
    night = hosts.there("run")
    assert night.returncode == 0, night.stderr
    assert "blue pot" in hosts.day.run("search", str(CHAT), "where is the spare key").stdout
    assert "F28" in hosts.day.run("search", str(CHAT), "boiler code").stdout, "what was known before"
    for words in (b"blue pot", b"F28"):
        assert [name for name, content in files_below(hosts.data / "night").items() if words in content] == []
    kept = files_below(there, hosts.config)
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    assert files_below(there, hosts.config) == kept, "run again it changes nothing"
    code, output = hosts.init("--undo")
    assert code == 0, output
    assert not there.exists()
    night = hosts.day.run("run", program="hmem-night")
    assert night.returncode == 0, night.stderr
    assert "blue pot" in hosts.day.run("search", str(CHAT), "where is the spare key").stdout


def test_the_keys_can_do_nothing_else(hosts: TwoHomes) -> None:
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    marker = hosts.night / "marker"
    for request in ("ls", f"touch {marker}", f"begin 1; touch {marker}", ""):
        done = hosts.with_key("verbs", request)
        assert (done.returncode, "This key allows only" in done.stderr) == (24, True), request
    for request in ("ls", f"touch {marker}", "rsync --server --sender -r . /etc/hostname"):
        assert hosts.with_key("transfer", request).returncode not in (0, 255), request
    assert hosts.with_key("redis", f"touch {marker}").stdout == "", "Redis, and nobody spoke to it"
    assert not marker.exists()
    socket = f"{hosts.day.config}/supervisor.sock"
    for name in ("transfer", "verbs", "redis"):
        for forward in (
            ("-W", f"127.0.0.1:{hosts.day_port}"),
            ("-N", "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1"),
        ):
            assert hosts.with_key(name, before=forward).returncode != 0, (name, forward)
        assert hosts.with_key(name, before=("-tt",)).returncode != 0 or name == "redis"
        assert not through(hosts, name, socket), "no socket of that account"
    url = next(line for line in (hosts.config / "hmem.toml").read_text().splitlines() if line.startswith("REDIS_URL"))
    login = json.loads(url.partition(" = ")[2])
    refused_by_redis(login, hosts.data / "redis/redis.sock")
    hosts.control("restart", "redis")
    refused_by_redis(login, hosts.data / "redis/redis.sock")


def through(hosts: TwoHomes, name: str, target: str) -> bool:
    """Whether this key forwards to a socket of the day host."""
    here = hosts.folder / f"forwarded-{name}"
    command = ["ssh", "-F", f"{hosts.config}/night-host/ssh_config", "-N", "-L", f"{here}:{target}", f"hmem-day-{name}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as forward:
        time.sleep(2)
        done = subprocess.run(
            ["curl", "-s", "-m", "5", "--unix-socket", str(here), "http://localhost/"], capture_output=True, check=False
        )  # fmt: skip
        forward.terminate()
    return bool(done.stdout)


def refused_by_redis(url: str, socket: Path) -> None:
    """The night's login, also after a restart, reads no task and changes no settings."""
    assert str(socket) in url
    with Redis.from_url(url) as client:
        wait_for(lambda: answers(client), "Redis")
        for command in (("LRANGE", "hcli:tasks", "0", "-1"), ("CONFIG", "GET", "dir"), ("ACL", "LIST"), ("FLUSHALL",)):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


@pytest.mark.parametrize("direction", ["there", "back"])
def test_killed_anywhere_it_goes_on(hosts: TwoHomes, direction: str) -> None:
    """Killed again and again, each time a little later, in one installation; at no moment two nights could run."""
    before = archive(hosts.day.data / "night")
    if direction == "back":
        assert hosts.init(*hosts.options)[0] == 0
        before = archive(hosts.data / "night")
    words = ["--undo"] if direction == "back" else hosts.options
    steps = (
        ("ssh", "archive", "schedule", "there")
        if direction == "back"
        else ("program", "keys", "archive", "settings", "services")
    )
    points = ("night-host:brought",) if direction == "back" else ("night-host:copied", "night-host:marked")
    for step in steps:
        kill_after(hosts, step, *words)
        at_most_one_night(hosts)
        if step in ("keys", "ssh"):
            for point in points:
                code, output = hosts.init(*words, HMEM_CRASH_AT=point)
                assert code == -signal.SIGKILL, output
                at_most_one_night(hosts)
    code, output = hosts.init(*words)
    assert code == 0, output
    place = hosts.day.data / "night" if direction == "back" else hosts.data / "night"
    assert archive(place).items() >= before.items()
    hosts.say("The spare key is under the blue pot.")
    night = hosts.day.run("run", program="hmem-night") if direction == "back" else hosts.there("run")
    assert night.returncode == 0, night.stderr
    assert "blue pot" in hosts.day.run("search", str(CHAT), "where is the spare key").stdout


def kill_after(hosts: TwoHomes, step: str, *words: str) -> None:
    process = hosts.start(*words)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"✓ {step}"):
            break
        assert not line.startswith("✗"), line
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def at_most_one_night(hosts: TwoHomes) -> None:
    usable = [
        place
        for place in (hosts.day.data / "night", hosts.data / "night")
        if (place / "format.json").exists() and not place.with_name("night.moved").exists()
    ]
    assert len(usable) <= 1, usable


def test_what_is_wrong_is_one_sentence(hosts: TwoHomes) -> None:
    """One thing after another, in one installation; nothing is changed by any."""
    before = files_below(hosts.day.data / "night" / "archive", hosts.config)

    def refused(why: str, *words: str, host: str = "gpu") -> None:
        code, output = hosts.init(*(words or hosts.options), host=host)
        assert code != 0, output
        assert why in output, output
        assert "Traceback" not in output, output
        assert files_below(hosts.day.data / "night" / "archive") == {
            name: held for name, held in before.items() if "archive" in name
        }

    refused("there is no such name", host="gpu.invalid")
    refused("Run ssh-copy-id gpu-without-key", host="gpu-without-key")
    refused("Run ssh gpu-unknown once, compare the fingerprint", host="gpu-unknown")
    refused("no sshd answers on that port", host="gpu-off")
    refused("is no host for ssh", host="-oProxyCommand=touch /tmp/x")
    refused("--day-address", "--day-address", "not an address")
    hosts.break_python()
    refused("has only Python 3.9.2, and 3.11 or newer is needed")
    hosts.mend()
    with hosts.without("rsync"):
        refused("rsync is missing on gpu. Install it there (sudo apt-get install rsync)")
    refused("cannot be reached at 127.0.0.1:9", "--day-address", "127.0.0.1:9", *hosts.options[2:])
    refused("another host answers there", "--day-host-key", f"{hosts.folder}/stranger.pub", *hosts.options[:2])
    hosts.control("stop", "telegram")
    refused("telegram of this installation does not run")
    hosts.control("start", "telegram")
    assert re.search("RUNNING|STARTING", hosts.control("status", "night")), "the schedule goes on after a failure"
    code, output = hosts.init(*hosts.options)
    assert code == 0, output
    code, output = hosts.init(*hosts.options, host="gpu-off")
    assert code != 0
    assert "belong to gpu. Bring them back first" in output


def test_a_host_that_init_did_not_set_up() -> None:
    with two_homes() as hosts:
        code, output = hosts.init()
        assert code != 0
        assert "was not set up by hmem init" in output
