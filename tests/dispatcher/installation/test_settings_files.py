"""The files of settings that `hmem init` writes: whole, private, and never without what their owner wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.installation.layout import of_host
from dispatcher.installation.settings_files import (
    given_settings,
    read_files,
    refuse_by_hand,
    write_redis_users,
    write_settings,
    write_values,
)
from shared.errors import InstallationIncomplete, SettingsError
from shared.wire.users import users
from tests.support.processes.installing import layout_in

VALUES = {
    "TELEGRAM_BOT_TOKEN": "1:a", "RESULT_HMAC_KEY": "k" * 64, "REDIS_URL": "redis://x/0", "ALLOWED_CHATS": "9912",
    "CHAT_TIMEZONE": "UTC",
}  # fmt: skip


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40))
def test_any_value_comes_back(tmp_path: Path, value: str) -> None:
    path = tmp_path / "hmem.toml"
    path.unlink(missing_ok=True)
    write_values(path, {"CLAUDE_ENV": value}, 0o600)
    write_values(path, {"LOG_LEVEL": "info"}, 0o600)
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {"CLAUDE_ENV": value, "LOG_LEVEL": "info"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_saved_meanwhile_stays_unless_this_run_sets_it(tmp_path: Path) -> None:
    """By the owner's page, while `hmem init` asks or carries out its steps."""
    for layout in (layout_in(tmp_path / "own"), of_host(tmp_path / "three")):
        layout.secrets.mkdir(parents=True)
        write_settings(layout, VALUES | {"MEMORY_TOKENS": "900", "SESSION_TOKENS": "30000"}, own_redis=True)
        known = read_files(layout)
        values = given_settings(layout, known) | {"CHAT_TIMEZONE": "Asia/Tokyo"}
        write_values(layout.settings_file, {"MEMORY_TOKENS": "1200", "CHAT_TIMEZONE": "Europe/Rome"}, 0o600)
        assert write_settings(layout, values, own_redis=True, known=known)
        found = given_settings(layout)
        assert (found["MEMORY_TOKENS"], found["CHAT_TIMEZONE"]) == ("1200", "Asia/Tokyo")
        write_values(layout.settings_file, {"CHAT_TIMEZONE": "Europe/Rome"}, 0o600)
        assert not write_settings(layout, values, own_redis=True, known=known), "a later step of the same run"
        assert given_settings(layout)["CHAT_TIMEZONE"] == "Europe/Rome"


def test_a_value_over_several_lines_is_not_torn(tmp_path: Path) -> None:
    path = tmp_path / "hmem.toml"
    path.write_text("ALLOWED_CHATS = [\n 1,\n 2,\n]\n")
    with pytest.raises(SettingsError, match="Change it by hand"):
        write_values(path, {"ALLOWED_CHATS": "3"}, 0o600)
    assert path.read_text() == "ALLOWED_CHATS = [\n 1,\n 2,\n]\n"


def test_with_three_users_no_secret_is_where_others_read(tmp_path: Path) -> None:
    layout = of_host(tmp_path)
    layout.secrets.mkdir(parents=True)
    write_redis_users(layout, 6400)
    write_settings(layout, VALUES | {"QDRANT_API_KEY": "q"}, own_redis=True)
    shared = layout.settings_file.read_text()
    assert layout.settings_file.stat().st_mode & 0o777 == 0o644
    assert "CHAT_TIMEZONE" in shared
    for name in ("TELEGRAM_BOT_TOKEN", "RESULT_HMAC_KEY", "REDIS_URL", "QDRANT_API_KEY"):
        assert name not in shared
    found = {path.stem: tomllib.loads(path.read_text()) for path in layout.secrets.glob("*.toml")}
    assert {name for name, values in found.items() if "TELEGRAM_BOT_TOKEN" in values} == {"bot"}
    assert "RESULT_HMAC_KEY" not in found["night"]
    with_password = [user for user in users() if user.password]
    assert len({values["REDIS_URL"] for values in found.values()}) == len(with_password) - 1
    assert all(path.stat().st_mode & 0o077 == 0 for path in layout.secrets.glob("*.toml"))
    write_settings(layout, VALUES, own_redis=False)
    for part in ("dispatcher", "bot", "night", "owner"):  # a Redis that was given is everybody's
        assert tomllib.loads((layout.secrets / f"{part}.toml").read_text())["REDIS_URL"] == VALUES["REDIS_URL"]


def test_a_host_that_was_set_up_by_hand_is_left_alone(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    layout.config.mkdir(parents=True)
    refuse_by_hand(layout)
    layout.settings_file.write_text('RESULT_HMAC_KEY = "secret"\n')
    with pytest.raises(InstallationIncomplete, match="set up by hand"):
        refuse_by_hand(layout)


def test_the_environment_comes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_in(tmp_path)
    layout.config.mkdir(parents=True)
    layout.settings_file.write_text('CHAT_TIMEZONE = "UTC"\nMEMORY_TOKENS = 5\n')
    monkeypatch.setenv("CHAT_TIMEZONE", "Asia/Tokyo")
    found = given_settings(layout)
    assert (found["CHAT_TIMEZONE"], found["MEMORY_TOKENS"]) == ("Asia/Tokyo", "5")
