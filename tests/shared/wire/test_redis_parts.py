"""Our Redis users in the owner's hands: `hmem doctor` as each of them, a forgetting with named credentials, passwords, what `scripts/setup` says."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dispatcher.health.checks.redis import check_rights
from dispatcher.health.doctor import connect
from dispatcher.health.findings import Fault, Finding, Setup
from tests.support.redis.users import DEPLOY, Guarded
from tests.support.world import World


@pytest.fixture
def installed(tmp_path: Path, guarded: Guarded) -> Iterator[World]:
    """An installation whose commands run as the dispatcher unless told otherwise; `redis` may do everything."""
    with guarded.client("tester") as client:
        client.flushall()
        yield World(tmp_path, client, guarded.urls["dispatcher"], {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})


@pytest.mark.parametrize("user", ["owner", "bot", "dispatcher", "night"])
def test_doctor_judges_each_user_by_its_own_rows(user: str, installed: World, guarded: Guarded) -> None:
    def rights() -> Finding:
        with closing(connect(installed.settings(redis_url=guarded.urls[user]))) as client:
            return check_rights(Setup(installed.settings(), client))

    assert rights().state == "ok"
    before = installed.redis.dbsize()
    changed = {"owner": "getrange", "bot": "lset", "dispatcher": "hset", "night": "incrby"}[user]
    saved = next(line for line in map(_text, installed.redis.acl_list()) if line.startswith(f"user {user} "))
    without = re.sub(rf" \+{changed}\b", "", saved).split()[2:]
    try:
        installed.redis.execute_command("ACL", "SETUSER", user, "reset", *_rules(without))  # type: ignore[no-untyped-call]
        found = rights()
        assert (found.state, found.code) == ("problem", Fault.REDIS_RIGHTS)
        assert changed.upper() in found.sentence
        assert f"the line of the user {user} from deploy/redis-users.acl" in found.fix
        assert "SETUSER" not in found.fix
    finally:
        installed.redis.execute_command("ACL", "SETUSER", user, "reset", *_rules(saved.split()[2:]))  # type: ignore[no-untyped-call]
    assert rights().state == "ok"
    assert installed.redis.dbsize() == before


def _text(line: bytes | str) -> str:
    return line.decode() if isinstance(line, bytes) else line


def _rules(words: list[str]) -> list[str]:
    """Words of ACL LIST as ACL SETUSER takes them: a selector is one."""
    return [one.strip() for one in re.findall(r"\([^)]*\)|[^ ]+", " ".join(words))]


def test_doctor_says_that_the_administrator_is_no_user_for_the_day(installed: World, guarded: Guarded) -> None:
    with closing(connect(installed.settings(redis_url=guarded.urls["admin"]))) as client:
        found = check_rights(Setup(installed.settings(), client))
    assert found.code == Fault.REDIS_RIGHTS
    assert "may touch no key" in found.sentence


@pytest.mark.slow
def test_forgetting_with_named_credentials_starts_its_night_with_those_beside_them(
    installed: World, guarded: Guarded
) -> None:
    secrets = installed.root / "named"
    shutil.copytree(guarded.folder.parent / f"{guarded.folder.name}-secrets", secrets)
    installed.environment |= {"REDIS_URL": "", "RESULT_HMAC_KEY": "", "HMEM_CREDENTIALS": str(secrets / "owner.toml")}
    installed.say("t1", "The boiler code is 4711.")
    installed.command("hmem-night", "run", HMEM_CREDENTIALS=str(secrets / "night.toml"))
    (secrets / "night.toml").rename(secrets / "away.toml")
    done = installed.command("hmem", "forget", "--matching", "4711", "--yes", check=False)
    assert done.returncode == 28, done.stdout + done.stderr
    assert "would be the Redis user owner" in done.stdout
    assert "incrby" not in done.stdout + done.stderr
    (secrets / "away.toml").rename(secrets / "night.toml")
    assert "complete" in installed.command("hmem", "forget", "--resume").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "usage: "),
        (["--redis"], 2, "requires HOST:PORT"),
        (["--redis", "here"], 2, "requires HOST:PORT"),
        (["--frob"], 2, "unknown option '--frob'"),
        (["one", "two"], 2, "one directory"),
        (["gone/secrets"], 1, "cannot be created. Create its parent directory"),
        (["there"], 1, "already exists"),
        (["--redis", "10.0.0.7:6380", "made"], 0, "written to made"),
    ],
)
def test_new_secrets_checks_what_it_is_given(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    done = subprocess.run(
        [str(DEPLOY / "new-secrets"), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done
    assert {path.name for path in tmp_path.iterdir()} == {"there", *(["made"] if "made" in words else [])}
