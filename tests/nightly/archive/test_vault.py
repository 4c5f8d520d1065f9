"""`hmem-night export-archive --format obsidian`: a vault beside each chat's files, with what these have."""

from __future__ import annotations

import re

from nightly.archive.export import ExportScope, export_archive
from nightly.night.progress import Reporter
from shared.turns.records import Tombstone
from tests.support.world import World

NOON = 1_770_638_400.0


def test_each_chat_has_a_vault_without_what_is_forgotten(light: World) -> None:
    for number, text in enumerate(["one", "to be forgotten", "three"]):
        light.say(f"t{number}", text, timestamp=NOON + 86_400 * number)
    light.say("x", "of another chat", chat_id="-100", timestamp=NOON)
    light.push_tombstone(Tombstone("stone", "9912", NOON, turn_ids=frozenset({"t1:user"})))
    light.night()
    out = light.root / "out"
    export_archive(light.settings(), out, ExportScope(obsidian=True), Reporter(quiet=True))
    vault = out / "9912" / "obsidian"
    assert sorted(path.name for path in vault.rglob("*.md")) == ["2026-02-09.md", "2026-02-11.md", "Chat.md"]
    words = "".join(path.read_text(encoding="utf-8") for path in vault.rglob("*.md"))
    assert re.findall(r"^> (\w+)", words, re.MULTILINE).count("one") == 1
    assert "forgotten" not in words
    assert "Next: [[Days/2026-02-11|2026-02-11]]" in words
    assert (out / "-100" / "obsidian" / "Chat.md").exists()
    assert (out / "9912" / "conversation.md").exists()


def test_the_command_takes_the_format(light: World) -> None:
    light.say("t1", "one", timestamp=NOON)
    light.night()
    light.command("hmem-night", "export-archive", "--format", "obsidian", "--out", str(light.root / "a"))
    light.command("hmem-night", "export-archive", "--out", str(light.root / "b"))
    assert (light.root / "a" / "9912" / "obsidian").is_dir()
    assert not (light.root / "b" / "9912" / "obsidian").exists()
    wrong = light.command("hmem-night", "export-archive", "--format", "pdf", check=False)
    assert wrong.returncode == 2
