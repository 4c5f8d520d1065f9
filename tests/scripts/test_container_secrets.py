"""deploy/container-secrets, which the service `secrets` of the compose file runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from shared.config.settings import load_settings
from tests.support.redis_users import DEPLOY

PARTS = ("redis", "dispatcher", "owner", "night", "bot")
TOKEN = "123456789:AAE_x-y"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to any group")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("all", *PARTS):
        (tmp_path / "secrets" / name).mkdir(parents=True)
    return tmp_path / "secrets"


def secrets(place: Path, *arguments: str, token: str = TOKEN, given: str = "") -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", "HMEM_SECRETS": str(place), "TELEGRAM_BOT_TOKEN": token}
    return subprocess.run(
        [DEPLOY / "container-secrets", *arguments], env=variables, input=given, capture_output=True, text=True, check=False
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


@pytest.mark.parametrize("token", ["nonsense", '1:a"\nREDIS_URL = "x', "1:a b", ":a"])
def test_a_token_that_is_none_is_refused(place: Path, token: str) -> None:
    done = secrets(place, token=token)
    assert (done.returncode, "Correct it" in done.stderr) == (10, True)
    assert not (place / "bot" / "hmem.toml").exists()


@pytest.mark.parametrize("value", ["postgresql://u:p@db/x", 'a "quoted" \\ one', "ümläut"])
def test_a_further_secret_setting_stays(place: Path, value: str) -> None:
    assert secrets(place, "set", "dispatcher", "DAY_STORE_URL", given="before\n").returncode == 0
    assert secrets(place, "set", "dispatcher", "DAY_STORE_URL", given=f"{value}\n").returncode == 0
    assert secrets(place).returncode == 0
    assert of(place, "dispatcher")["DAY_STORE_URL"] == value
    assert "DAY_STORE_URL" not in of(place, "owner")


def test_the_program_reads_what_was_set(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secrets(place, "set", "dispatcher", "DAY_STORE_URL", given="postgresql://u:p@db/x").returncode == 0
    for name in ("REDIS_URL", "RESULT_HMAC_KEY", "DAY_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HMEM_CREDENTIALS", str(place / "dispatcher" / "hmem.toml"))
    monkeypatch.setenv("HMEM_CONFIG", "/dev/null")
    assert load_settings().day_store_url == "postgresql://u:p@db/x"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("set", "redis", "X"), "x"), (("set", "night", "x y"), "x"), (("set", "night", "X"), ""), (("set",), ""),
        (("show", "../../etc/passwd"), ""), (("show", "nobody"), ""), (("show",), ""), (("frob",), ""),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_in_a_sentence(place: Path, words: tuple[str, ...], given: str) -> None:
    secrets(place)
    before = sorted(path.name for path in place.rglob("*"))
    done = secrets(place, *words, given=given)
    assert (done.returncode, done.stdout, done.stderr.startswith("secrets: ")) == (2, "", True)
    assert sorted(path.name for path in place.rglob("*")) == before


def test_programs_outside_are_shown_theirs(place: Path) -> None:
    secrets(place)
    shown = secrets(place, "show", "hcli-bot").stdout
    assert tomllib.loads(shown)["REDIS_URL"].startswith("redis://hcli-bot:")


def test_a_volume_that_cannot_be_written_is_named(place: Path) -> None:
    shutil.rmtree(place / "all")
    done = secrets(place)
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)
