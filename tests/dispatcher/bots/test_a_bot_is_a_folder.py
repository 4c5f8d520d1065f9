"""A front end is a folder of `dispatcher/bots/`: its command, settings and rights are there with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.world import REPOSITORY

FILES = {
    "__init__.py": "",
    "feature.py": """
from shared.hooks import hook
from shared.system.command import CommandEntry

@hook
def commands():
    return [CommandEntry("discord", "dispatcher.bots.discord.bot", "The Discord bot, in the foreground.")]
""",
    "settings.py": """
from shared.config.feature_settings import FeatureSettings

class DiscordSettings(FeatureSettings):
    discord_chats: str = ""
""",
    "keys.py": """
from shared.wire.key_table import both

KEYS = ()
RIGHTS = {"bot": (both("GET SET", "hcli:mem:discord:*", why="what it has shown"),)}
""",
}
ASKED = """
import sys
import dispatcher.bots
dispatcher.bots.__path__.append(sys.argv[1])
from dispatcher.cli.main import hmem
from shared.config.settings import setting_names
from shared.wire.ids import bot_names
from shared.wire.users import acl
assert "discord" in bot_names()
assert "DISCORD_CHATS" in setting_names()
assert "~hcli:mem:discord:* " in acl()
assert "aiogram" not in sys.modules, "another bot's library is not loaded for it"
sys.argv[1:] = ["--help"]
hmem()
"""


def test_a_bot_with_a_command_settings_and_rights_of_its_own_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "discord"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-c", ASKED, str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    assert "The Discord bot, in the foreground." in done.stdout, done.stderr
