"""deploy/redis-users.acl and what copies and encryption do in Redis: each part as its own user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redis import Redis

from shared.delivery.journal.state import read_journal
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.keyring import Keyring
from shared.system.keys.sealing import keyring_path
from tests.support.day.forgetting_world import CHAT
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.redis.users import Guarded, refusals
from tests.support.world import World

pytestmark = pytest.mark.slow


def test_keys_are_exchanged_and_destroyed_by_each(installed: World, guarded: Guarded, admin: Redis) -> None:
    """The night destroys its copy of a forgotten chat's key when it applies the owner's tombstone."""
    night, owner = guarded.urls["night"], guarded.urls["owner"]
    keys = {name: installed.root / name / "encrypt.key" for name in ("day", "night")}
    made = EncryptionKey.new()
    for path in keys.values():
        path.parent.mkdir(mode=0o700)
        made.write(path)
    installed.environment |= {"ENCRYPT_KEY_FILE": str(keys["day"]), "NIGHT_ENCRYPT_KEY_FILE": str(keys["night"])}
    writer = World(installed.root, admin, guarded.urls["tester"], dict(installed.environment))
    for chat in (CHAT, "77"):
        writer.say(f"t{chat}", "The boiler code is 4711.", chat_id=chat)
    installed.command("hmem", "owner-key", REDIS_URL=owner)
    installed.command("hmem-night", "run", REDIS_URL=night)
    (key_id,) = [one for one, name in keyring_names(keys["night"]).items() if name == f"chat:{CHAT}"]
    forgotten = installed.command("hmem", "forget", f"--chat={CHAT}", "--yes", "--later", check=False, REDIS_URL=owner)
    assert forgotten.returncode == 28, forgotten.stderr
    writer.say("more", "It was changed to 4712.", chat_id="77")
    installed.command("hmem-night", "run", REDIS_URL=night)
    assert key_id not in keyring_names(keys["night"])
    assert admin.hexists("hcli:mem:keyring", f"gone:{key_id}")
    assert not admin.hexists("hcli:mem:keyring", key_id)
    assert keys["night"].read_bytes() == keys["day"].read_bytes() != made.line.encode()
    running = installed.start_dispatcher()
    assert "4712" in installed.command("hmem", "search", "77", "changed", REDIS_URL=owner).stdout
    assert running.stop() == 0
    assert refusals(admin) == []


def test_a_lost_redis_comes_back_from_the_journal_as_the_dispatcher(
    installed: World, guarded: Guarded, admin: Redis
) -> None:
    disk = installed.root / "disk"
    disk.mkdir()
    installed.environment |= {"JOURNAL": str(disk), "JOURNAL_SECONDS": "0.2", "CONSOLIDATION_INTERVAL": "0.3"}
    bot = Bot(guarded.client("hcli-bot"))
    running = installed.start_dispatcher()
    assert "stand-in" in bot.receive(bot.send("The boiler code is 4711.", 9912))["output"]
    wait_for(lambda: entries_of(disk) >= 2, "the journal to have both turns")
    assert running.stop() == 0
    admin.flushall()
    admin.acl_log_reset()
    running = installed.start_dispatcher()
    wait_for(lambda: len(list(admin.scan_iter(match="hcli:memory:*"))) == 2, "the turns to be put back")
    assert admin.exists("hcli:session:9912")
    assert running.stop() == 0
    admin.flushall()
    installed.command("hmem", "restore", "--day", "--yes")
    assert len(list(admin.scan_iter(match="hcli:memory:*"))) == 2
    json.loads(installed.command("hmem-night", "run", "--json", REDIS_URL=guarded.urls["night"]).stdout)
    running = installed.start_dispatcher()
    wait_for(lambda: entries_of(disk) == 0, "the flushed turns to leave the journal")
    assert running.stop() == 0
    assert refusals(admin) == []


def entries_of(disk: Path) -> int:
    """Turns in the journal."""
    return len(read_journal(disk).turns)


def keyring_names(key_file: Path) -> dict[str, str]:
    """Id → name of the keys in the night's keyring."""
    ring = Keyring(EncryptionKey.load(key_file), keyring_path(key_file, "night"))
    ring.refresh()
    return {key_id: key.name for key_id, key in ring.keys.items()}
