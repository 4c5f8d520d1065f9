"""The drill: a lived-in installation, a copy of its archive, an empty host, `hmem restore`: every command that reads memory says the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import EventOutbox
from shared.wire import keys
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY, Live, World

CHAT, GROUP = "9912", "-100123"
#: What reads memory, and prints it.
READ = [
    ["memory", "list", CHAT], ["memory", "list", CHAT, "--json"], ["memory", "list", "--", GROUP],
    ["history", CHAT, "--since", "2001-01-01"], ["history", "--since", "2001-01-01", "--", GROUP],
    ["search", CHAT, "boiler code"], ["context", CHAT, "what is the boiler code?"], ["history", CHAT, "--summary"],
]  # fmt: skip


@pytest.fixture
def lived_in(begun: Callable[[Live], World]) -> World:
    """Two nights and part of a day: turns, memories that were replaced, done, hidden; languages."""
    return begun(_live)


def _live(light: World) -> None:
    light.environment |= {"CONSOLIDATION_INTERVAL": "0.2", "CLAUDE_BIN": script(light, f"{SAY} Noted.")}
    light.redis.hset(keys.chat_settings("77"), "language", "fr")
    dispatcher, bot = light.start_dispatcher(), Bot(light.redis)
    bot.ask("the boiler code is pelican7731", CHAT)
    bot.ask("/timezone Europe/Lisbon", CHAT)
    database = Database(None, light.root / "state")
    bot.ask("our bridge is closed on Sunday", GROUP, name="Anna", chat_type="group")
    for kind, text in (("fact", "The boiler code is pelican7731"), ("fact", "The flight is on the 13th"), ("fact", "To be hidden"),
                       ("goal", "Paint the fence"), ("preference", "Answers in short sentences")):  # fmt: skip
        light.command("hmem", "memory", "add", CHAT, text, "--type", kind)
    light.night()
    bot.ask("the wifi is called heron", CHAT)
    light.command("hmem", "memory", "correct", CHAT, "2", "The flight is on the 14th")
    light.command("hmem", "memory", "done", CHAT, "4")
    light.command("hmem", "memory", "forget", CHAT, "3")
    light.night()
    bot.ask("the gate opens at seven", CHAT)
    light.command("hmem", "memory", "add", CHAT, "The gate opens at seven")
    outbox = EventOutbox(database)
    wait_for(lambda: not (light.redis.smembers(keys.CHATS) or outbox.waiting(1)), "consolidation")
    dispatcher.stop()
    light.command("hmem-night", "capture")


def empty_host(world: World, root: Path) -> World:
    """Another host, with an empty Redis."""
    world.redis.flushall()
    root.mkdir()
    made = World(root, world.redis, world.url)
    made.environment = dict(world.environment)
    return made


def said(world: World) -> list[str]:
    """What the commands print, without numbers of releases and scores."""
    found = [world.command("hmem", *command).stdout for command in READ]
    return [re.sub(r"release \d+|-?\d+\.\d+", "…", text) for text in found]


def test_everything_that_a_person_would_miss_comes_back(lived_in: World, tmp_path: Path) -> None:
    lived_in.night()  # memory as it is served of all of it
    shutil.copytree(lived_in.night_dir / "archive", copy := tmp_path / "copy")
    before = said(lived_in)
    assert all(before) and "14th" in before[0] and "To be hidden" not in before[0]
    host = empty_host(lived_in, tmp_path / "host")
    done = host.command("hmem", "restore", str(copy))
    assert done.stdout == (
        "Restored: 6 memories, 2 chats. Ask hmem doctor whether all is well, and start the dispatcher.\n"
    )
    assert "Brought " in done.stderr
    assert "It goes up to " in done.stderr
    assert said(host) == before
    assert host.redis.hget(keys.chat_settings("77"), "language") == b"fr"
    assert host.redis.hget(keys.chat_settings(CHAT), "timezone") == b"Europe/Lisbon"
    again = json.loads(host.command("hmem", "restore", str(copy), "--json").stdout)
    assert (again["memory"], again["chat"]) == (0, 0)


def test_the_day_since_the_last_night_comes_back_from_the_capture(lived_in: World, tmp_path: Path) -> None:
    shutil.copytree(lived_in.night_dir / "archive", copy := tmp_path / "copy")
    host = empty_host(lived_in, tmp_path / "host")
    host.command("hmem", "restore", str(copy))
    assert "the gate opens at seven" in host.command("hmem", "history", CHAT, "--since", "2001-01-01").stdout
    assert "The gate opens at seven" in host.command("hmem", "memory", "list", CHAT).stdout
    assert host.command("hmem-night", "verify").returncode == 0


def test_a_copy_is_pending_until_it_was_seen_without_the_words(light: World, tmp_path: Path) -> None:
    light.say("t1", "the boiler code is pelican7731")
    light.say("t2", "something else")
    light.night()
    shutil.copytree(light.night_dir / "archive", copy := tmp_path / "copy")
    forget = ["hmem", "forget", "--matching", "pelican7731", "--yes", "--copy"]
    assert "is not a directory" in light.command(*forget, str(tmp_path / "no"), check=False).stderr
    done = light.command(*forget, str(copy), check=False)
    assert (done.returncode, f"the copy {copy} still has the words" in done.stdout) == (28, True)
    assert light.command("hmem", "forget", "--resume", check=False).returncode == 28
    shutil.copytree(light.night_dir / "archive", copy, dirs_exist_ok=True)
    assert light.command("hmem", "forget", "--resume").returncode == 0


def test_the_page_on_backups_works_word_for_word(light: World, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "backups.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 250
    once, daily, trial, forgotten = re.findall(r"^```\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "restic.password").write_text("word\n")
    export = once.splitlines()[0]

    def run(commands: str, world: World) -> str:
        text = f"set -e\n{export}\n{commands}"
        for named, here in (("/mnt/backup", tmp_path), ("/root", tmp_path), ("/tmp/trial", tmp_path / "trial")):
            text = text.replace(str(named), str(here))
        text = text.replace("/var/lib/hmem-night", str(light.night_dir))
        done = subprocess.run(
            ["sh", "-c", text],
            env=world.variables(RESTIC_CACHE_DIR=str(tmp_path / "cache")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    light.say("t1", "the boiler code is pelican7731")
    light.say("t2", "the wifi is called heron")
    light.night()
    run(once.partition("\n")[2], light)
    run(daily, light)
    light.command("hmem", "forget", "--matching", "pelican7731", "--yes")
    run(forgotten, light)
    host = empty_host(light, tmp_path / "host")
    run(trial, host)
    assert "heron" in host.command("hmem", "history", CHAT, "--since", "2001-01-01").stdout
    for path in [*(tmp_path / "trial").rglob("*"), *host.night_dir.rglob("*")]:
        assert not path.is_file() or b"pelican7731" not in path.read_bytes(), path


def test_bad_input_changes_nothing_and_says_why(light: World, tmp_path: Path, redis: Redis) -> None:
    (tmp_path / "nothing").mkdir()
    done = light.command("hmem", "restore", str(tmp_path / "nothing"), check=False)
    assert done.returncode != 0 and "is not an archive" in done.stderr
    light.say("t1", "one")
    light.night()
    shutil.copytree(light.night_dir / "archive", copy := tmp_path / "copy")
    light.say("t2", "two")
    light.night()
    done = light.command("hmem", "restore", str(copy), check=False)
    assert done.returncode == 24 and "which the copy lacks" in done.stderr and "Traceback" not in done.stderr
    (segment,) = copy.glob("seg-*")
    segment.write_bytes(segment.read_bytes().replace(b"one", b"two"))
    done = empty_host(light, tmp_path / "host").command("hmem", "restore", str(copy), check=False)
    assert done.returncode != 0 and "is damaged" in done.stderr
    assert not redis.keys("hcli:mem:night:last")
    (tmp_path / "list").write_bytes(b"{}\n")
    done = light.command("hmem", "restore", str(copy), "--forgotten", str(tmp_path / "list"), check=False)
    assert done.returncode == 24 and "line 1 is not a tombstone" in done.stderr
