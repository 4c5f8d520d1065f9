"""Secrets come from a descriptor or a file, once, and go on to children of ours only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shared.config.sources
from shared.config import credentials
from shared.config.settings import load_settings, setting_names
from shared.config.sources import secrets_of
from shared.errors import SettingsError
from tests.support.world import BINARIES, REPOSITORY, World

SHOWS = (
    "from shared.config.settings import load_settings as load; s = load(); load(); key = s.result_hmac_key; "
    "print(s.redis_url, key and key.get_secret_value())"
)
Written = Callable[[str], Path]


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [*setting_names(), "HMEM_CONFIG", "HMEM_CREDENTIALS"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shared.config.sources, "DEFAULT_CONFIG", tmp_path / "none.toml")
    monkeypatch.setattr(credentials, "SECRETS_DIR", tmp_path / "secrets")
    for name, value in (("part", None), ("from_descriptor", None), ("handed_to", {})):
        monkeypatch.setattr(credentials._Process, name, value)
    yield


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        path = tmp_path / "credentials.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_environment_wins_over_credentials_and_they_over_the_settings_file(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMEM_CREDENTIALS", str(written('REDIS_URL = "redis://held/0"\nRESULT_HMAC_KEY = "held"')))
    (tmp_path / "hmem.toml").write_text('REDIS_URL = "redis://file/0"\nRESULT_HMAC_KEY = "file"\nMEMORY_TOKENS = 7')
    monkeypatch.setenv("HMEM_CONFIG", str(tmp_path / "hmem.toml"))
    monkeypatch.setenv("RESULT_HMAC_KEY", "variable")
    settings = load_settings()
    assert settings.result_hmac_key
    found = settings.redis_url, settings.result_hmac_key.get_secret_value(), settings.memory_tokens
    assert found == ("redis://held/0", "variable", 7)


@pytest.mark.parametrize("part", ["owner", "night"])
def test_unnamed_they_are_the_parts_own(part: str, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    for name in ("owner", "night"):
        (tmp_path / "secrets" / f"{name}.toml").write_text(f'REDIS_URL = "redis://{name}/0"')
    assert load_settings().redis_url == "redis://127.0.0.1:6379/0", "a process that is no part of ours looks nowhere"
    credentials.begin_as(part)
    assert load_settings().redis_url == f"redis://{part}/0"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('REDIS_URI = "redis://h/0"', "unknown setting REDIS_URI"),
        ('RESULT_HMAC_KEY = "hidden', "cannot be read"),
        ("RESULT_HMAC_KEY = 'hidden'\n" * 2, "cannot be read"),
        ("#" * 40_000, "larger than"),
    ],
)
def test_what_is_no_credentials_file_is_one_sentence_without_its_text(
    content: str, words: str, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(content)
    monkeypatch.setenv("HMEM_CREDENTIALS", str(path))
    with pytest.raises(SettingsError, match=words) as refused:
        load_settings()
    assert str(path) in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("named", ["/nowhere/credentials.toml", "fd:77", "fd:x"])
def test_credentials_that_are_named_must_be_there(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMEM_CREDENTIALS", named)
    with pytest.raises(SettingsError, match=r"cannot be read|is not an open descriptor"):
        load_settings()


def test_a_descriptor_is_read_once_and_closed_and_no_child_has_it(written: Written) -> None:
    """Standard input, as the units give it: afterwards it is empty, and what is opened next does not take its place."""
    script = (
        f"{SHOWS}; import os, subprocess; print(os.readlink('/proc/self/fd/0'));"
        "print(subprocess.run(['cat'], capture_output=True).stdout); print('hmac' in ''.join(os.environ.values()))"
    )
    with written('REDIS_URL = "redis://held/0"\nRESULT_HMAC_KEY = "hmac"').open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", script], stdin=file, env=os.environ | {"HMEM_CREDENTIALS": "fd:0"}, cwd=REPOSITORY,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == ["redis://held/0 hmac", "/dev/null", "b''", "False"]


def test_a_child_of_ours_gets_them_by_a_pipe_and_no_more_than_it_needs(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "HMEM_CREDENTIALS", str(written('REDIS_URL = "redis://held/0"\nRESULT_HMAC_KEY = "h\\u00e9\\n"'))
    )
    load_settings()

    def child(**narrowed: tuple[str, ...]) -> str:
        with credentials.for_child(**narrowed) as (environment, descriptors):  # type: ignore[arg-type]
            assert "held" not in str(environment)
            return subprocess.run(
                [sys.executable, "-c", SHOWS], env=environment, pass_fds=descriptors, cwd=REPOSITORY,
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip

    assert child() == "redis://held/0 hé\n\n"
    assert child(only=("REDIS_URL",)) == "redis://held/0 None\n"


def test_the_nights_lie_beside_ours_where_those_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in ("secrets", "named"):
        (tmp_path / directory).mkdir()
        for part in ("owner", "night"):
            (tmp_path / directory / f"{part}.toml").write_text(f'REDIS_URL = "redis://{part}:x@{directory}/0"')

    def nights() -> str:
        monkeypatch.setattr(credentials._Process, "handed_to", {})
        credentials.begin_as("owner", "night")
        return credentials.redis_url_of("night", load_settings().redis_url)

    assert nights() == "redis://night:x@secrets/0"
    monkeypatch.setenv("HMEM_CREDENTIALS", str(tmp_path / "named" / "owner.toml"))
    assert nights() == "redis://night:x@named/0"
    (tmp_path / "named" / "night.toml").unlink()
    assert nights() == "redis://owner:x@named/0", "not those of another installation"
    monkeypatch.setenv("REDIS_URL", "redis://variable/0")
    assert nights() == "redis://variable/0"


def test_addresses_with_a_password_count_as_secrets() -> None:
    settings = load_settings(redis_url="redis://u:p@h/0", result_hmac_key="k", day_store_url="postgresql://u@h/d")
    assert secrets_of(settings.every()) == ["REDIS_URL", "RESULT_HMAC_KEY"]


def test_doctor_names_secrets_in_the_environment(light: World) -> None:
    def isolation(**more: str) -> str:
        shown = light.command("hmem", "doctor", "--all", check=False, **more).stdout
        return next(line for line in shown.splitlines() if "isolation" in line)

    assert "RESULT_HMAC_KEY is in the environment" in isolation()
    held = light.root / "held.toml"
    held.write_text('RESULT_HMAC_KEY = "k"')
    assert "in the environment" not in isolation(RESULT_HMAC_KEY="", HMEM_CREDENTIALS=str(held))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["HMEM_CONFIG", "HMEM_CREDENTIALS", "fd:0"])
def test_a_file_that_others_may_write_is_refused_though_it_holds_no_secret(light: World, what: str) -> None:
    """It says which programs are run here."""
    mode = 0o602
    path = light.root / "written.toml"
    path.write_text('RESTART_COMMAND = "true"')
    path.chmod(mode)
    named = {"HMEM_CREDENTIALS": what} if what.startswith("fd") else {what: str(path)}

    def shown() -> subprocess.CompletedProcess[str]:
        with path.open("rb") as file:
            words = [str(BINARIES / "hmem"), "forget", "--list"]
            return subprocess.run(
                words, env=light.variables(**named), stdin=file, capture_output=True, text=True, check=False
            )

    done = shown()
    assert (done.returncode, "Traceback" in done.stderr) == (10, False)
    assert f"is writable by users other than its owner (mode 0{mode:o})" in done.stderr
    assert "chmod go-w" in done.stderr
    path.chmod(0o644)
    assert shown().returncode == 0
