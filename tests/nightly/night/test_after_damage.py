"""What a night must not build on: parts that were damaged since they were proven, words that were forgotten, and what another program has cut."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nightly.steps import flush
from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.release import parts, retention
from shared.release.manifest import CHATS, LEXICAL, read_manifest, verify
from shared.system.files import remove_tree
from tests.support.night.archives import places, stone, texts
from tests.support.world import World

NOON = 1_707_500_000.0


def say(world: World, number: int, chat: str = "9912", words: str = "", at: float | None = None) -> None:
    said = words or f"heron {number} of {chat} was seen at the pond by Anna."
    world.say(f"t{number}-{chat}", said, chat_id=chat, timestamp=NOON + 60 * number if at is None else at)


def current(world: World) -> Path:
    return (world.memory_dir / "current").resolve()


def keep_apart(world: World) -> Path:
    """As on two hosts: what the last night left are files of their own. Returns the folder."""
    last = world.night_dir / "last"
    shutil.copytree(last, world.root / "apart", copy_function=shutil.copy2)
    shutil.rmtree(last)
    (world.root / "apart").rename(last)
    (kept,) = last.iterdir()
    return kept


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Other bytes, the same size and times."""
    stat, old = path.stat(), path.read_bytes()
    new = change(old)
    assert len(new) == len(old)
    assert new != old
    mode = stat.st_mode
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(new)
    path.chmod(mode)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def other_words(content: bytes) -> bytes:
    return content.replace(b"heron 1 of 9912", b"heroN 9 of 9912")


def test_a_damaged_current_release_stops_no_night(light: World) -> None:
    for chat in ("9912", "77"):
        say(light, 0, chat)
    light.night()
    say(light, 10, "5")
    light.night()
    keep_apart(light)
    damage(current(light) / CHATS, lambda content: b"\0" * 4096 + content[4096:])
    say(light, 20)
    light.night()
    assert verify(current(light)).turns == 4


def test_damage_is_not_merged_into_a_new_part(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        say(light, number)
    light.night()
    (part,) = (keep_apart(light) / LEXICAL).iterdir()
    damage(part, other_words)
    monkeypatch.setattr(parts, "FANOUT", 3)
    for number in range(3):
        say(light, number, "77", words=f"news {number}")
        light.night()
    assert not any("heroN" in text for text in texts(light).values())


def test_a_summary_of_what_was_forgotten_is_in_no_part(light: World) -> None:
    """The tombstone covers no turn that is left: each was said anew after the time up to which it forgets."""
    say(light, 0, words="the locker opens with pelican7731 today", at=NOON)
    say(light, 1, words="we paint the fence on Friday", at=NOON + 1)
    say(light, 0, "77")
    light.night()
    say(light, 0, words="nothing", at=NOON + 500)
    say(light, 1, words="nothing else", at=NOON + 501)
    stone(light, before=NOON + 100, created_at=NOON + 100)
    light.night()
    assert places(light, "pelican7731") == []


def test_a_killed_removal_is_finished_by_the_next_night(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    say(light, 0, words="pelican7731 locker")
    say(light, 1, words="fence")
    light.night()
    stone(light, turn_ids=frozenset({"t0-9912:user"}))

    def remove_or_die(path: Path) -> None:
        if path.name.endswith(".gone"):
            raise SystemExit("killed")
        remove_tree(path)

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(retention, "remove_tree", remove_or_die)
        light.night()
    assert places(light, "pelican7731") != []
    light.night()
    assert places(light, "pelican7731") == []


def test_a_rollback_stops_the_flush(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    say(light, 0)
    light.night()
    monkeypatch.setattr(flush, "BATCH_BYTES", 1)
    monkeypatch.setattr(flush, "CURRENT_SECONDS", 0.0)
    passed = list[str]()

    def roll_back(point: str) -> None:
        if point == "flush:batch-deleted" and not passed:
            light.command("hmem", "release", "rollback", "--yes", "1")
        passed.append(point)

    monkeypatch.setattr(flush, "crash_point", roll_back)
    for number in range(5):
        say(light, 10 + number)
    with pytest.raises(ReleaseRefused, match="a rollback"):
        light.night()
    assert len(light.redis.keys("hcli:memory:*")) == 4


def test_no_word_is_in_what_is_said_of_damage(light: World, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        say(light, number)
    light.night()
    keep_apart(light)
    damage(current(light) / LEXICAL / "1.sqlite", lambda content: content.replace(b"heron 1 of", b"her\xffn 1 of"))
    for number in (10, 11):
        say(light, number, "77")
        with suppress(HmemError):
            light.night()
    said = capsys.readouterr()
    nights = [path for path in (light.night_dir / "nights").rglob("*.json") if b"at the pond" in path.read_bytes()]
    assert ("at the pond" in said.out + said.err, nights) == (False, [])


def test_a_damaged_cache_begins_anew(world: World) -> None:
    for number in range(40):
        say(world, number)
    world.night()
    cache = world.night_dir / "cache.sqlite"
    good = cache.read_bytes()
    cache.write_bytes(good[: len(good) // 2] + b"\xff" * 20_000 + good[len(good) // 2 + 20_000 :])
    for number in range(40):
        say(world, number, "77")
    with suppress(StorageError):
        world.night()
    world.night()
    assert read_manifest(current(world)).turns == 80


def test_a_damaged_catalog_does_not_stop_nights_without_news(light: World) -> None:
    for chat in range(300):
        say(light, 0, str(chat))
    light.night()
    catalog = light.night_dir / "catalog.sqlite"
    stat, content = catalog.stat(), catalog.read_bytes()
    with closing(sqlite3.connect(catalog)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chats'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with catalog.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert catalog.read_bytes() != content
    os.utime(catalog, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with suppress(StorageError):
        light.night()
    light.night()
    assert light.command("hmem-night", "verify").returncode == 0
