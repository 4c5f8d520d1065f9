"""`hmem doctor` and the alarm, asked by a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from dispatcher.health import doctor
from dispatcher.health.findings import Finding, Setup
from tests.support import machine
from tests.support.world import World, sign_of_life


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[Redis]:
    """A redis-server with these options; a client of its default user."""
    with machine.redis_server(folder, *options) as (_, client, _):
        yield client


def url_of(client: Redis, user: str = "") -> str:
    return f"redis://{user}127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


def ask(host: World, **more: str) -> tuple[int, dict[str, Finding]]:
    """What `hmem doctor --json` answers: its exit code, and the findings by name."""
    with (
        closing(Redis.from_url(re.sub("//.*@", "//", more.get("REDIS_URL", host.url)))) as client,
        sign_of_life(client),
    ):
        done = host.command("hmem", "doctor", "--json", check=False, **more)
    assert "Traceback" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return done.returncode, {found["name"]: Finding(**found) for found in report["findings"]}


def expect(host: World, name: str, code: int, sentence: str, fix: str, **more: str) -> dict[str, Finding]:
    """This check alone is a problem: its code is the command's, its sentence and fix match."""
    ended, found = ask(host, **more)
    problems = {key: f for key, f in found.items() if f.state == "problem"}
    assert problems == {name: found[name]}, problems
    assert (ended, found[name].code) == (code, code)
    assert re.search(sentence, found[name].sentence), found[name].sentence
    assert re.search(fix, found[name].fix), found[name].fix
    assert list(found) == [check.name for check in doctor.every_check()], "no check is left out"
    return found


def looks(host: World, name: str, **more: Any) -> Finding:
    """What this one check finds, asked in this process."""
    check = next(check for check in doctor.every_check() if check.name == name)
    with closing(doctor.connect(host.settings())) as client:
        return doctor.carry_out(check, Setup(host.settings(), client, **more))
