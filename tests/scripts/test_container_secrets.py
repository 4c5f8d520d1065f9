"""deploy/container-secrets, which the service `secrets` of the compose file runs."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.redis.users import DEPLOY
from tests.support.world import BINARIES

PARTS = ("redis", "dispatcher", "owner", "night", "bot")
TOKEN = "123456789:AAE_x-y"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to any group")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("all", *PARTS):
        (tmp_path / "secrets" / name).mkdir(parents=True)
    return tmp_path / "secrets"


def secrets(place: Path, *arguments: str, token: str = TOKEN, given: str = "") -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{BINARIES}:/usr/bin:/bin", "HMEM_SECRETS": str(place), "TELEGRAM_BOT_TOKEN": token}
    return subprocess.run(
        [DEPLOY / "container-secrets", *arguments],
        env=variables, input=given, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False,
    )  # fmt: skip


def of(place: Path, part: str) -> dict[str, str]:
    return dict(tomllib.loads((place / part / "hmem.toml").read_text()))


def test_each_service_gets_its_own_file_for_its_group(place: Path) -> None:
    assert secrets(place).returncode == 0
    files = {part: next((place / part).iterdir()) for part in PARTS}
    assert {part: path.stat().st_gid for part, path in files.items()} == {
        "redis": 999, "dispatcher": 10001, "owner": 10001, "night": 10002, "bot": 10003
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o440}
    assert of(place, "bot")["TELEGRAM_BOT_TOKEN"] == TOKEN
    assert not [part for part in PARTS[1:-1] if "TELEGRAM_BOT_TOKEN" in of(place, part)]
    assert len({of(place, part)["REDIS_URL"] for part in PARTS[1:]}) == 4
    assert of(place, "bot")["RESULT_HMAC_KEY"] == of(place, "dispatcher")["RESULT_HMAC_KEY"]
    assert re.search(r"^user night reset on #[0-9a-f]{64} ", files["redis"].read_text(), re.M)


def test_each_start_hands_out_the_same_secrets_and_the_newest_token(place: Path) -> None:
    done = secrets(place, token="")
    assert (done.returncode, "TELEGRAM_BOT_TOKEN is empty" in done.stderr) == (0, True)
    before = of(place, "bot")
    assert "TELEGRAM_BOT_TOKEN" not in before
    for name in PARTS[1:]:
        (place / name / "hmem.toml").unlink()
    assert secrets(place).returncode == 0
    assert of(place, "bot") == before | {"TELEGRAM_BOT_TOKEN": TOKEN}


def test_a_start_that_was_killed_leaves_nothing_half_made(place: Path) -> None:
    (place / "all" / "new").mkdir()
    (place / "all" / "new" / "bot.toml").write_text("REDIS_URL = ")
    assert secrets(place).returncode == 0
    assert of(place, "bot")["REDIS_URL"].startswith("redis://bot:")
    assert sorted(path.name for path in (place / "all").iterdir()) == ["made", "more"]


def test_a_token_that_is_none_is_refused(place: Path) -> None:
    for token in ("nonsense", '1:a"\nREDIS_URL = "x'):
        done = secrets(place, token=token)
        assert (done.returncode, "Correct it" in done.stderr) == (10, True), token
    assert not (place / "bot" / "hmem.toml").exists()


def test_a_value_that_the_service_could_not_read_changes_nothing(place: Path) -> None:
    assert secrets(place, "set", "dispatcher", "DAY_STORE_URL", given="before").returncode == 0
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for given in ("two\nlines\n", "a\x1b[0m", "\udcff", "\n"):
        done = secrets(place, "set", "dispatcher", "DAY_STORE_URL", given=given)
        assert (done.returncode, done.stderr.startswith("secrets: ")) == (2, True), (given, done.stderr)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_what_was_set_can_be_removed_also_where_it_broke_the_file(place: Path) -> None:
    assert secrets(place, "set", "dispatcher", "DAY_STORE_URL", given="postgresql://u:p@db/x").returncode == 0
    with (place / "all" / "more" / "dispatcher.toml").open("a") as more:
        more.write('REDIS_URL = "of an earlier version, which took it"\n')
    assert secrets(place).returncode == 0
    with pytest.raises(tomllib.TOMLDecodeError):
        of(place, "dispatcher")
    done = secrets(place, "unset", "dispatcher", "REDIS_URL")
    assert (done.returncode, "REDIS_URL is unset for dispatcher" in done.stderr) == (0, True)
    assert of(place, "dispatcher")["REDIS_URL"].startswith("redis://dispatcher:")
    assert secrets(place, "unset", "dispatcher", "DAY_STORE_URL").returncode == 0
    assert "DAY_STORE_URL" not in of(place, "dispatcher")
