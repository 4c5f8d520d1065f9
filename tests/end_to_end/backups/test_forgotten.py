"""Backups and forgetting: old ones still hold what was forgotten, until they are removed. Two hosts, PostgreSQL, Redis' users."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest

from dispatcher.memory.store.database import Database
from tests.end_to_end.backups.hosts import ARCHIVED, WAITING, BackedUp, backed_up, empty_host, lived_in, remember
from tests.support.night.archives import texts
from tests.support.night.mirrors import verify
from tests.support.redis.users import guarded_redis, refusals
from tests.support.stores import PostgreSQL
from tests.support.world import World

WORDS = "the concert ticket is in the green folder"


@pytest.fixture
def kept(light: World, tmp_path: Path) -> BackedUp:
    light.say("c1", WORDS, chat_id="77", timestamp=1_707_400_000.0)
    lived_in(light)
    made = backed_up(light, tmp_path)
    made.backup("--init")
    return made


def holding(kept: BackedUp, folder: Path) -> list[str]:
    """The snapshots in which a file has the words, in whatever form restic gives them back."""
    found = []
    for one in json.loads(kept.restic("snapshots", "--json")):
        tree = folder / one["id"]
        kept.restic("restore", one["id"], "--target", str(tree))
        if any(b"green folder" in path.read_bytes() for path in tree.rglob("*") if path.is_file()):
            found.append(one["id"])
    return found


def test_backups_from_before_a_forgetting_are_pending_until_they_are_removed(kept: BackedUp, tmp_path: Path) -> None:
    world = kept.world
    assert len(holding(kept, tmp_path / "before")) == 1
    done = world.command("hmem", "forget", "--chat=77", "--yes", "--json", check=False)
    assert done.returncode == 28
    (receipt,) = json.loads(done.stdout)
    assert [str(kept.to) in sentence and "--forget-older" in sentence for sentence in receipt["pending"]] == [True]
    kept.backup()
    assert len(holding(kept, tmp_path / "between")) == 1, "a new backup does not hold it, the old one still does"
    assert world.command("hmem", "forget", "--resume", "--yes", check=False).returncode == 28
    assert len(kept.made("--forget-older")["forgotten_snapshots"]) == 1
    assert holding(kept, tmp_path / "after") == []
    assert kept.restic("check", "--read-data")
    done = world.command("hmem", "forget", "--resume", "--yes", "--json")
    assert json.loads(done.stdout)[0]["complete"]
    assert json.loads(done.stdout)[0]["words_gone_at"] == receipt["words_gone_at"]


def test_nothing_is_removed_while_a_forgetting_is_not_done(kept: BackedUp) -> None:
    assert kept.world.command("hmem", "forget", "--chat=77", "--yes", "--later", check=False).returncode == 28
    done = kept.backup("--forget-older", check=False)
    assert (done.returncode, "hmem forget --resume" in done.stderr) == (28, True)
    assert len(json.loads(kept.restic("snapshots", "--json"))) == 2


def test_what_a_killed_backup_has_left_is_forgotten_too(kept: BackedUp) -> None:
    kept.backup(check=False, HMEM_CRASH_AT="backup:staged")
    staging = kept.world.root / "state" / "backups" / "staging"
    assert len(list(staging.iterdir())) == 1
    kept.world.command("hmem", "forget", "--chat=77", "--yes", check=False)
    assert list(staging.iterdir()) == []


def test_what_was_forgotten_stays_so_in_a_backup_that_is_restored(kept: BackedUp, tmp_path: Path) -> None:
    """It was hidden, not erased, when the backup was made."""
    kept.world.command("hmem", "memory", "forget", "9912", "1")
    kept.backup()
    with empty_host(kept.world, tmp_path / "other") as other:
        kept.restore(other)
        there = (other.root / "state" / "forgotten.jsonl").read_bytes()
        assert there == (kept.world.root / "state" / "forgotten.jsonl").read_bytes()


@pytest.mark.parametrize("way", [("forget", "--matching", "heronplanet", "--yes"), ("memory", "forget", "9912", "2")])
def test_a_restore_over_an_installation_brings_no_forgotten_memory_back(kept: BackedUp, way: tuple[str, ...]) -> None:
    """`hmem forget` leaves no words by which it could be found in the backup, and a memory that was typed has no turn."""
    world = kept.world
    remember(world, "the safe opens with heronplanet")
    kept.backup()
    world.command("hmem", *way, check=False)
    killed = kept.restore(world, "--yes", check=False, HMEM_CRASH_AT="restore:day_store")
    assert killed.returncode == -signal.SIGKILL
    done = kept.restore(world)
    assert "day store of this host stayed" in done.stdout
    memories = world.command("hmem", "memory", "list", "9912").stdout
    assert ("heronplanet" in memories, "Pushok" in memories) == (False, True)
    for path in (world.root / "state").glob("day-store.sqlite*"):
        path.unlink()
    done = kept.restore(world, "--yes")  # there is nothing else to be had now
    assert "Forget again" in done.stdout


def test_on_two_hosts_each_backs_up_its_part_and_one_restore_has_both(light: World, tmp_path: Path) -> None:
    lived_in(light)
    kept = backed_up(light, tmp_path)
    away = {"HMEM_NIGHT_DIR": str(tmp_path / "not-here")}  # as the day host sees it
    made = kept.made("--init", **away)
    assert "hmem-night backup" in " ".join(made["lacks"])
    assert made["parts"]["archive"] is None
    done = light.command("hmem-night", "backup", str(kept.to), "--json", check=True, **kept.variables())
    assert json.loads(done.stdout)["segments"] == 2
    assert kept.made(**away)["lacks"] == []
    light.command("hmem-night", "backup", str(kept.to), check=True, **kept.variables())
    assert json.loads(kept.backup("--verify", "--json", check=True, **away).stdout)["lacks"] == []
    with empty_host(light, tmp_path / "other") as other:
        kept.restore(other)
        assert texts(other) == texts(light)
        assert [verify(host)["turns"] for host in (other, light)] == [2, 2]


def test_a_mirror_on_this_host_has_the_archive(light: World, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir(mode=0o700)
    light.environment["ARCHIVE_MIRROR"] = str(mirror)
    lived_in(light)
    kept = backed_up(light, tmp_path)
    made = kept.made("--init", HMEM_NIGHT_DIR=str(tmp_path / "not-here"))
    assert (made["lacks"], made["parts"]["archive"]["segments"]) == ([], 2)


def test_a_day_store_of_postgresql_goes_into_a_file_and_back(light: World, tmp_path: Path, server: PostgreSQL) -> None:
    light.environment["DAY_STORE_URL"] = server.database()
    lived_in(light)
    kept = backed_up(light, tmp_path)
    assert kept.made("--init")["parts"]["day_store"] == "PostgreSQL, as an SQLite file"
    kept.backup("--verify")
    rows = dump(light.environment["DAY_STORE_URL"], tmp_path)
    assert any("Pushok" in str(row) for row in rows)
    for url in (server.database(), None):
        with empty_host(light, tmp_path / f"other-{url is None}") as other:
            other.environment = {name: value for name, value in light.environment.items() if name != "DAY_STORE_URL"}
            other.environment |= {"DAY_STORE_URL": url} if url else {}
            kept.restore(other)
            assert dump(url, other.root / "state") == rows
            remember(other, "the dog is called Sharik")  # its numbers go on after those that came back
            assert "Sharik" in other.command("hmem", "memory", "list", "9912").stdout


def dump(url: str | None, state: Path) -> list[tuple[object, ...]]:
    """All rows of a store's memories and chats."""
    from sqlalchemy import select

    from dispatcher.memory.store.tables import chats, memories

    with closing(Database(url, state)) as database, database.reading() as connection:
        return [tuple(row) for table in (memories, chats) for row in connection.execute(select(table))]


def test_the_owners_redis_user_may_do_all_of_it(light: World, tmp_path: Path) -> None:
    with guarded_redis(tmp_path / "guarded") as running, guarded_redis(tmp_path / "other-guarded") as second:
        host = World(light.root, running.client("tester"), running.urls["tester"], dict(light.environment))
        lived_in(host)
        kept = backed_up(host, tmp_path)
        kept.backup("--init", REDIS_URL=running.urls["owner"])
        kept.backup("--verify", REDIS_URL=running.urls["owner"])
        other = World(tmp_path / "other", second.client("tester"), second.urls["tester"], dict(light.environment))
        other.root.mkdir()
        kept.restore(other, REDIS_URL=second.urls["owner"])
        assert WAITING in str(other.redis.get("hcli:memory:t3:user"))
        assert ARCHIVED in " ".join(texts(other).values())
        for one in (running, second):
            assert refusals(one.client("admin")) == []
