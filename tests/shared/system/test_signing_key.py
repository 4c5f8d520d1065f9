"""The secret of results: what is none, an example's, or easy to guess is refused in a sentence."""

from __future__ import annotations

import re
import subprocess

import pytest

from shared.config.settings import load_settings
from shared.errors import SettingsError
from shared.turns.signed import SHORTEST, signing_key
from tests.support.world import REPOSITORY

SOUND = (
    "0f" * 4 + "a9c3e1" * 8,
    "correct horse battery staple",
    "x7-Kq!92mPz_4vTb",
    "Schlüssel des Telegram-Bots",
    "the-hmac-key-of-three-users",
)


def refused(value: str) -> str:
    with pytest.raises(SettingsError) as caught:
        signing_key(load_settings(result_hmac_key=value), "no answer could be signed")
    assert len(value) < 6 or value not in str(caught.value), "a secret is not repeated"
    assert "openssl rand -hex 32" in str(caught.value)
    return str(caught.value)


def examples() -> set[str]:
    """What stands for the secret in our documents and examples."""
    ours = [f":(glob){folder}*.*" for folder in ("", "docs/", "deploy/", "systemd/")]
    listed = subprocess.run(["git", "ls-files", *ours], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    texts = [file.read_text("utf-8") for name in listed.stdout.splitlines() if (file := REPOSITORY / name).exists()]
    return {found for text in texts for found in re.findall(r'RESULT_HMAC_KEY\W{1,3}= ?"([^"]+)"', text)}


def test_what_stands_in_our_examples_is_refused() -> None:
    found = examples()
    assert found, "README.md and deploy/hmem.toml show one"
    for value in {*found, "the secret that your bot verifies results with"}:
        assert "placeholder of an example" in refused(value)


@pytest.mark.parametrize(
    "value", ["change-me-please-now", "<your secret here>", "your_hmac_key_goes_here", "${RESULT_HMAC_KEY_FROM_ENV}"]
)
def test_what_others_write_there_is_refused(value: str) -> None:
    assert "placeholder of an example" in refused(value)


@pytest.mark.parametrize("value", ["k", "hunter2", "a" * 64, "12121212121212121212"])
def test_what_is_easy_to_guess_is_refused(value: str) -> None:
    assert f"needs {SHORTEST} characters" in refused(value)


def test_none_is_refused_with_what_that_means() -> None:
    assert "RESULT_HMAC_KEY is not set, so no answer could be signed" in refused(" ")


@pytest.mark.parametrize("value", SOUND)
def test_a_sound_one_is_taken(value: str) -> None:
    assert signing_key(load_settings(result_hmac_key=value), "") == value
