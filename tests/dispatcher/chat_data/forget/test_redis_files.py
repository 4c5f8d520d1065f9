"""After `hmem forget` Redis' own files and logs: rewritten by the user `admin`, or named for the owner."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.redis_files import ACL_LOG, AOF, SLOW_LOG, SNAPSHOT, rewrite
from tests.support.machine import free_port, wait_for
from tests.support.redis.users import Guarded, guarded_redis
from tests.support.world import World

WORDS = ("zanzibar", "lighthouse")
SAID = f"the {' '.join(WORDS)} canary sleeps at noon"
#: What the words may hide in is written as it is; every command is slow; a rewrite can be made to last.
OPTIONS = ["--rdbcompression", "no", "--slowlog-log-slower-than", "0", "--save", "3600 1"]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with guarded_redis(tmp_path / "redis", *OPTIONS) as running:
        yield running


@pytest.fixture
def spoken(tmp_path: Path, guarded: Guarded) -> World:
    """A chat has said something; it is in the append-only file, in a snapshot and in the slow log."""
    tester = guarded.client("tester")
    world = World(tmp_path, tester, guarded.urls["owner"], {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})
    world.say("t1", SAID, timestamp=time.time() - 60)
    world.say("t2", "the neighbours keep a tortoise", chat_id="77", timestamp=time.time() - 60)
    tester.save()
    assert places(guarded) >= {"appendonly.aof.1.incr.aof", "dump.rdb"}
    assert "zanzibar" in str(tester.slowlog_get(100))
    return world


def places(guarded: Guarded) -> set[str]:
    """Names of the files of Redis' directory that hold one of the words."""
    found = set()
    for path in guarded.folder.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # Redis replaces its files meanwhile
            content = path.read_bytes()
            if any(word.encode() in content for word in WORDS):
                found.add(path.name)
    return found


def forget(world: World, **more: str) -> dict[str, Any]:
    arguments = ["hmem", "forget", "--chat=9912", "--yes", "--later", "--json"]
    (record,) = json.loads(world.command(*arguments, check=False, **more).stdout)
    assert record["scan"]["found"] == [], record
    assert record["layers"]["redis: turns"] == {"removed": 1}
    return dict(record)


def named(record: dict[str, Any]) -> list[str]:
    """What stays of Redis' files and logs."""
    return [f"{one['what']}: {one['why']}: {one['do']}" for one in record["stays"] if "Redis" in one["what"]]


def rewritten(world: World, guarded: Guarded, admin: str, **more: Any) -> Any:
    with closing(guarded.client("owner")) as client:
        return rewrite(world.settings(redis_admin_url=admin), client, print, **more)


def test_after_a_forgetting_as_administrator_the_words_are_in_no_file_of_redis(spoken: World, guarded: Guarded) -> None:
    record = forget(spoken, REDIS_ADMIN_URL=guarded.urls["admin"])
    assert named(record) == []
    assert {name: counts for name, counts in record["layers"].items() if name.removeprefix("redis: ") in (AOF, SNAPSHOT, SLOW_LOG, ACL_LOG)} == {
        "redis: append-only file": {"rewritten": 1}, "redis: snapshot": {"rewritten": 1},
        "redis: slow log": {"emptied": 1}, "redis: ACL log": {"emptied": 1},
    }  # fmt: skip
    wait_for(lambda: not places(guarded), "Redis to remove its old files")
    assert "zanzibar" not in str(spoken.redis.slowlog_get(1000))
    assert spoken.redis.acl_log() == []
    assert b"tortoise" in b"".join(path.read_bytes() for path in guarded.folder.rglob("*.aof*") if path.is_file())


def test_without_an_administrator_the_receipt_names_what_stays_and_it_does(spoken: World, guarded: Guarded) -> None:
    (said,) = named(forget(spoken))
    assert "append-only file, snapshot, slow log, ACL log of Redis" in said
    assert "REDIS_ADMIN_URL is not set" in said
    assert places(guarded) >= {"appendonly.aof.1.incr.aof", "dump.rdb"}
    for command in ("BGREWRITEAOF", "BGSAVE SCHEDULE", "SLOWLOG RESET", "ACL LOG RESET"):
        assert f"redis-cli {command}" in said
        done = subprocess.run(
            ["redis-cli", "-u", guarded.urls["admin"], "--no-auth-warning", *command.split()], check=True, capture_output=True, text=True
        )  # fmt: skip
        assert "ERR" not in done.stdout
        assert "NOPERM" not in done.stdout
    wait_for(lambda: not places(guarded), "what the receipt says to be enough")
    assert spoken.redis.acl_log() == [], "the owner was refused nothing"


def test_an_administrator_who_may_not_or_is_another_redis_is_named(
    spoken: World, guarded: Guarded, redis_url: str
) -> None:
    (said,) = named(forget(spoken, REDIS_ADMIN_URL=redis_url))
    assert "REDIS_ADMIN_URL and REDIS_URL are different servers" in said
    stays = rewritten(spoken, guarded, guarded.urls["owner"]).stays
    assert [one["what"] for one in stays] == [f"{name} of Redis" for name in (AOF, SNAPSHOT, SLOW_LOG, ACL_LOG)]
    assert all("no permissions" in one["why"] for one in stays)
    (one,) = rewritten(spoken, guarded, guarded.urls["admin"].replace("admin:", "admin:x")).stays
    assert "invalid username-password pair" in one["why"]


def test_a_rewrite_that_takes_too_long_is_named_and_the_logs_are_emptied(spoken: World, guarded: Guarded) -> None:
    spoken.redis.config_set("rdb-key-save-delay", 30_000_000)
    cut = rewritten(spoken, guarded, guarded.urls["admin"], seconds=0.5)
    assert [one["what"] for one in cut.stays] == ["append-only file of Redis", "snapshot of Redis"]
    assert all("did not finish in time" in one["why"] for one in cut.stays)
    assert cut.done == {SLOW_LOG: "emptied", ACL_LOG: "emptied"}


@pytest.mark.slow
def test_a_rewrite_that_was_under_way_is_not_taken_for_ours(spoken: World, guarded: Guarded) -> None:
    """It was begun before the words went, so it writes them."""
    spoken.redis.config_set("rdb-key-save-delay", 1_000_000)
    spoken.redis.bgrewriteaof()
    spoken.redis.config_set("rdb-key-save-delay", 0)
    spoken.redis.delete("hcli:memory:t1:user")
    ours = rewritten(spoken, guarded, guarded.urls["admin"], seconds=600)
    assert (ours.stays, ours.done[AOF]) == ([], "rewritten")
    wait_for(lambda: not places(guarded), "Redis to remove its old files")


def test_a_snapshot_that_cannot_be_written_is_named(spoken: World, guarded: Guarded) -> None:
    (guarded.folder / "dump.rdb").unlink()
    (guarded.folder / "dump.rdb").mkdir()
    (one,) = rewritten(spoken, guarded, guarded.urls["admin"]).stays
    assert (one["what"], "could not write it" in one["why"]) == ("snapshot of Redis", True)
    (guarded.folder / "dump.rdb").rmdir()  # else Redis does not end


def test_replicas_are_named(spoken: World, guarded: Guarded, tmp_path: Path) -> None:
    port = free_port()
    folder = tmp_path / "replica"
    folder.mkdir()
    options = ["--dir", str(folder), "--save", "", "--masteruser", "tester", "--masterauth", "x"]
    command = ["redis-server", "--port", str(port), "--replicaof", f"127.0.0.1 {guarded.port}", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as replica:
        wait_for(lambda: spoken.redis.info("replication")["connected_slaves"], "the replica")
        (one,) = rewritten(spoken, guarded, guarded.urls["admin"]).stays
        assert one["what"].endswith("of its replicas")
        replica.terminate()
