"""`hmem release`, what is pruned and what never is, and a release that ends its reader: real nights, real dispatchers."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import Redis

from dispatcher.releases import manage
from dispatcher.releases.crash_guard import MARKS
from dispatcher.releases.served import ServedRelease
from shared.delivery import receiver
from shared.errors import InvalidInput, ReleaseRefused
from shared.release import retention
from shared.release.manifest import read_manifest
from shared.release.parts import part_files
from shared.release.retention import read_pin, release_runs
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.files import locked_dir
from shared.turns.records import Tombstone
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World


@pytest.fixture
def bot(redis: Redis) -> Bot:
    return Bot(redis)


def nights(world: World, count: int, first: int = 1) -> None:
    """So many releases, each after the one before."""
    for number in range(first, first + count):
        world.say(f"t{number}", f"note {number} about the boiler")
        world.night()


def current(world: World) -> int:
    return int((world.memory_dir / "current").readlink().name)


def silent(_: str) -> None:
    pass


def damage(world: World, run: int) -> None:
    """To the newest file of its keywords."""
    with part_files(world.memory_dir / "releases" / str(run) / "lexical")[-1].open("r+b") as handle:
        handle.seek(100)
        handle.write(b"\x00" * 8)


# ----------------------------------------------------------------------------------------------------- list and verify


def test_the_list_says_what_each_release_is(light: World) -> None:
    assert "no release yet" in light.command("hmem", "release", "list").stdout
    nights(light, 3)
    (light.memory_dir / "releases" / "1" / "manifest.json").write_text("{")
    with retention.reading(light.memory_dir / "releases" / "2"):
        record = json.loads(light.command("hmem", "release", "list", "--json").stdout)
    one, two, three = record["releases"]
    assert (one["marks"], one["turns"]) == (["unreadable"], None)
    assert two["marks"] == ["previous", "in use"]
    assert three["marks"] == ["current"]
    assert (three["run"], three["parent"], three["turns"], three["chats"]) == (3, 2, 3, 1)
    assert three["bytes"] > 10_000
    assert three["created_at"].startswith("20")
    assert record["wrong"] is None
    lines = light.command("hmem", "release", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert "3 turns of 1 chats" in lines[2]
    assert lines[2].endswith("current")


def test_the_list_shows_what_is_wrong_with_current(light: World) -> None:
    nights(light, 2)
    shutil.move(light.memory_dir / "releases" / "2", light.root / "away")
    done = light.command("hmem", "release", "list")
    assert done.stdout.split()[0] == "1"
    assert "points to releases/2, which does not exist" in done.stderr


def test_verify_names_the_file_that_was_changed(light: World) -> None:
    nights(light, 3)
    assert "Release 3 is intact" in light.command("hmem", "release", "verify").stdout
    damage(light, 2)
    assert light.command("hmem", "release", "verify").returncode == 0, "that is not the current one"
    done = light.command("hmem", "release", "verify", "2", check=False)
    assert done.returncode == 16
    assert "Release 2: lexical/2.sqlite was changed" in done.stderr
    (light.memory_dir / "releases" / "1" / "extra").touch()
    done = light.command("hmem", "release", "verify", "--all", "--json", check=False)
    assert done.returncode == 16
    assert [(line["run"], line["ok"]) for line in json.loads(done.stdout)] == [(1, False), (2, False), (3, True)]
    assert "extra is not in the manifest" in done.stderr
    assert "Also damaged: 2" in done.stderr
    assert light.command("hmem", "release", "verify", "7", check=False).returncode == 24


# ------------------------------------------------------------------------------------------------------ rollback, unpin


def test_a_rollback_pins_and_nights_go_on_beside_it_until_it_is_lifted(light: World) -> None:
    nights(light, 2)
    said = light.command("hmem", "release", "rollback").stdout
    assert "Release 1 is current instead of 2, and pinned." in said
    assert (
        "Until hmem release unpin, nights publish their releases without switching to them, and delete nothing from Redis."
        in said
    )
    assert current(light) == 1
    nights(light, 1, first=3)
    assert current(light) == 1
    assert light.redis.exists("hcli:memory:t3:user"), "nothing is deleted while another release is pinned"
    marks = {
        one["run"]: one["marks"]
        for one in json.loads(light.command("hmem", "release", "list", "--json").stdout)["releases"]
    }
    assert marks[1] == ["current", "pinned"]
    assert light.command("hmem", "release", "unpin").stdout.startswith("Release 1 is no longer pinned.")
    assert current(light) == 1
    nights(light, 1, first=4)
    assert current(light) == max(release_runs(light.memory_dir)) > 2
    assert light.redis.keys("hcli:memory:*") == []
    assert read_manifest((light.memory_dir / "current").resolve()).turns_per_chat == {"9912": 4}


def test_a_dispatcher_serves_what_was_gone_back_to(light: World, bot: Bot) -> None:
    nights(light, 2)
    running = light.start_dispatcher()
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"2"], "release 2 to be served")
    light.command("hmem", "release", "rollback")
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"1"], "release 1 to be served")
    assert bot.ask("what about the boiler?", 9912)
    running.stop()


def test_a_rollback_that_would_do_harm_changes_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(light, 3)
    newer = light.memory_dir / "releases" / "1" / "manifest.json"
    newer.write_text(json.dumps(json.loads(newer.read_bytes()) | {"format_version": 99}))
    for run, words in ((1, "has format 99"), (None, "killed by signal 11")):
        monkeypatch.setattr(receiver, "TRYOUT_MODULE", "tests.support.processes.dies")
        with pytest.raises(ReleaseRefused, match=words):
            manage.roll_back(light.settings(), run, silent)
    monkeypatch.undo()
    damage(light, 2)
    with pytest.raises(ReleaseRefused, match=r"lexical/2\.sqlite was changed"):
        manage.roll_back(light.settings(), 2, silent)
    for run, words in ((3, "is already the current one"), (8, "There is no release 8")):
        with pytest.raises(InvalidInput, match=words):
            manage.roll_back(light.settings(), run, silent)
    assert current(light) == 3
    assert read_pin(light.memory_dir) is None


def test_what_was_forgotten_does_not_come_back_by_a_rollback(light: World) -> None:
    nights(light, 2)
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 1.0, turn_ids=frozenset({"t1:user"})).to_json())
    light.night()
    nights(light, 1, first=4)
    newest = current(light)
    applied = read_manifest((light.memory_dir / "current").resolve()).parent
    done = light.command("hmem", "release", "rollback", "2", check=False)
    assert done.returncode == 16
    assert f"the forgotten turns would come back. Choose a later one, such as {newest}" in done.stderr
    assert current(light) == newest
    manifest = light.memory_dir / "releases" / str(newest) / "manifest.json"
    manifest.write_text("{")  # which tombstones it had cannot be read now
    done = light.command("hmem", "release", "rollback", "2", check=False)
    assert f"such as {applied}" in done.stderr
    light.command("hmem", "release", "rollback", str(applied))
    assert current(light) == applied


@pytest.mark.parametrize("how", ["dangling", "damaged", "missing"])
def test_a_rollback_repairs_a_current_that_cannot_be_read(light: World, how: str) -> None:
    nights(light, 2)
    link, place = light.memory_dir / "current", light.memory_dir / "releases" / "2"
    if how == "dangling":
        shutil.move(place, light.root / "away")
    elif how == "damaged":
        (place / "manifest.json").write_bytes(b"")
    else:
        link.unlink()
    done = light.command("hmem", "release", "rollback", check=False)
    assert done.returncode == 24
    assert "hmem release rollback RUN" in done.stderr
    assert json.loads(light.command("hmem", "release", "rollback", "1", "--json").stdout)["current"] == 1
    assert current(light) == 1
    assert light.command("hmem", "release", "verify").returncode == 0


def test_the_pin_stands_before_the_switch(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(light, 2)

    def killed(link: Path, target: str) -> None:
        raise OSError(5, "the disk fails")

    monkeypatch.setattr(manage, "switch_link", killed)
    with pytest.raises(OSError, match="the disk fails"):
        manage.roll_back(light.settings(), None, silent)
    monkeypatch.undo()
    pin = read_pin(light.memory_dir)
    assert pin is not None
    assert (pin.run, current(light)) == (1, 2)
    assert "pinned at 1" in light.status().stdout
    assert manage.roll_back(light.settings(), None, silent) == (1, 2)


def test_unpin_says_when_there_is_nothing_to_lift_and_mends_a_damaged_pin(light: World) -> None:
    assert light.command("hmem", "release", "unpin", check=False).returncode == 24, "no memory directory"
    nights(light, 1)
    assert "No release is pinned" in light.command("hmem", "release", "unpin").stdout
    (light.memory_dir / "pinned").write_text("{")
    with pytest.raises(ReleaseRefused, match="hmem release unpin"):
        read_pin(light.memory_dir)
    assert "is damaged" in light.status(check=False).stderr
    assert json.loads(light.command("hmem", "release", "unpin", "--json").stdout) == {"unpinned": True, "run": None}
    assert read_pin(light.memory_dir) is None


# ---------------------------------------------------------------------------------------------------------------- prune


def test_prune_keeps_what_is_needed_and_says_why(light: World) -> None:
    nights(light, 5)
    retention.write_pin(light.memory_dir, 1)
    (light.memory_dir / "releases" / "3" / "manifest.json").write_text("{")
    leftover = light.memory_dir / "releases" / ".0.cut.gone"
    leftover.mkdir()
    opened = OpenRelease(light.settings(), light.memory_dir / "releases" / "2")
    record = json.loads(light.command("hmem", "release", "prune", "--keep", "1", "--json").stdout)
    assert record["removed"] == [3]
    assert {one["run"]: one["why"] for one in record["kept"]} == {
        1: ["pinned"], 2: ["in use"], 4: ["previous"], 5: ["current", "newest"],
    }  # fmt: skip
    assert not leftover.exists()
    assert [hit.chunk.chunk_id for hit in opened.recall(Query("9912", "note 1", 1)).hits] == ["t1:user#1"]
    opened.close()
    said = light.command("hmem", "release", "prune", "--keep", "1").stdout
    assert said.startswith("Removed: 2.")
    assert "4 stays: previous" in said


def test_the_release_that_a_dispatcher_serves_is_not_pruned(light: World) -> None:
    nights(light, 1)
    running = light.start_dispatcher(HMEM_MEMORY_DIR=str(light.memory_dir))
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"1"], "release 1 to be served")
    assert retention.in_use(light.memory_dir / "releases" / "1")
    assert not retention.remove_release(light.memory_dir / "releases" / "1")
    running.stop(signal.SIGKILL)
    assert not retention.in_use(light.memory_dir / "releases" / "1"), "the kernel frees it"


def test_a_night_prunes_nothing_that_is_read(light: World) -> None:
    nights(light, 1)
    opened = OpenRelease(light.settings(), light.memory_dir / "releases" / "1")
    for number in range(2, 7):
        light.say(f"t{number}", f"note {number}")
        light.night(releases_kept=2)
    assert release_runs(light.memory_dir) == [1, 4, 5, 6], "4 was the previous one when 6 came"
    opened.close()


@pytest.mark.parametrize("what", ["current", "manifest", "pin"])
def test_nothing_is_pruned_while_nobody_can_tell_what_is_needed(light: World, what: str) -> None:
    nights(light, 4)
    place = {"current": "current", "manifest": "releases/4/manifest.json", "pin": "pinned"}[what]
    (light.memory_dir / place).unlink(missing_ok=True)
    if what != "current":
        (light.memory_dir / place).write_text("{")
    with locked_dir(light.memory_dir):
        assert retention.prune(light.memory_dir, 1, coming=9) == []
    assert release_runs(light.memory_dir) == [1, 2, 3, 4]


def test_the_coming_release_counts_among_the_newest(light: World) -> None:
    nights(light, 4)
    assert retention.prune(light.memory_dir, 3, coming=5) == [1, 2]


# ------------------------------------------------------------------------------------- a release that ends its reader


@pytest.fixture
def deadly(world: World) -> dict[str, str]:
    """The environment of a dispatcher whose Chroma dies as it does over a damaged index; the nights build one."""
    world.environment["NIGHT_INDEXES"] = "chroma"
    library = world.root / "library" / "chromadb"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import signal\nsignal.raise_signal(signal.SIGSEGV)  # in this very thread\n")
    return {"PYTHONPATH": str(library.parent)}


def logged(running: Dispatcher, words: str) -> bool:
    return words in running.log.read_text()


def test_a_release_that_ends_its_reader_is_served_without_vectors(
    world: World, bot: Bot, deadly: dict[str, str]
) -> None:
    nights(world, 1)
    first = world.start_dispatcher(**deadly)
    assert first.process.wait(timeout=600) == -signal.SIGSEGV
    second = world.start_dispatcher(**deadly)
    wait_for(lambda: logged(second, "serving release"), "the release to be served")
    assert logged(second, "hmem release rollback")
    assert logged(second, "killed by signal 11")
    assert logged(second, "vectors=a dispatcher died while it opened release 1") or logged(
        second, "vectors='a dispatcher died"
    )
    assert bot.ask("what about the boiler?", 9912)
    assert b"1" in world.redis.hvals("hcli:mem:release")
    assert second.stop() == 0
    sound = world.start_dispatcher()  # the cause is mended: one trial, and all is as before
    wait_for(lambda: logged(sound, "vectors=yes"), "the vectors")
    assert logged(sound, "testing it in a separate process")
    assert sound.stop() == 0
    assert list((world.root / "state" / MARKS).iterdir()) == []


def left_behind(world: World) -> Path:
    """What a dispatcher leaves that dies while it opens the current release."""
    release = (world.memory_dir / "current").resolve()
    place = world.root / "state" / MARKS / f"{release.name}-{release.stat().st_ino}"
    (place / "dead").mkdir(parents=True)
    return place


def vectors_missing(memory: ServedRelease) -> str | None:
    with memory.reading() as release:
        assert release is not None
        return release.vectors_missing


def test_vectors_that_failed_their_trial_are_left_alone_until_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(world, 1)
    left_behind(world)
    memory = ServedRelease(world.settings())
    monkeypatch.setattr(receiver, "TRYOUT_MODULE", "tests.support.processes.dies")
    memory.refresh()
    assert "died while it opened release 1" in (vectors_missing(memory) or "")
    monkeypatch.undo()
    memory.retry()
    assert vectors_missing(memory), "no trial each minute: now it would pass"
    memory.close()
    again = ServedRelease(world.settings())
    again.refresh()
    assert vectors_missing(again) is None
    again.close()


def test_a_release_that_passes_its_trial_and_kills_all_the_same_is_not_opened_a_third_time(world: World) -> None:
    nights(world, 1)
    place = left_behind(world)
    (place / "passed").touch()
    memory = ServedRelease(world.settings())
    memory.refresh()
    assert vectors_missing(memory)
    memory.close()


def test_another_dispatcher_that_opens_the_same_release_is_not_a_dead_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(world, 1)
    place = left_behind(world)
    monkeypatch.setattr(receiver, "TRYOUT_MODULE", "tests.support.processes.dies")
    memory = ServedRelease(world.settings())
    with locked_dir(place / "dead"):  # it lives
        memory.refresh()
    assert vectors_missing(memory) is None
    memory.close()


def test_marks_of_releases_that_are_gone_go_too(world: World) -> None:
    nights(world, 1)
    gone = world.root / "state" / MARKS / "77-123"
    (gone / "dead").mkdir(parents=True)
    memory = ServedRelease(world.settings())
    memory.refresh()
    assert vectors_missing(memory) is None
    memory.close()
    assert not gone.exists()


def test_the_list_names_the_indexes(world: World) -> None:
    world.say("t1", "something")
    world.night(night_indexes="none")
    assert json.loads(world.command("hmem", "release", "list", "--json").stdout)["releases"][0]["indexes"] == []
    world.say("t2", "something else")
    world.night()
    assert [" sqlite " in line for line in world.command("hmem", "release", "list").stdout.splitlines()] == [
        False,
        True,
    ]


def test_a_damaged_name_of_an_index_stops_no_night(light: World) -> None:
    """It keeps what is on servers; the night host is told that nothing is known of that."""
    light.say("t1", "something")
    light.night()
    (light.memory_dir / "releases" / "1" / "qdrant.json").write_text("")
    answer = receiver.handle(light.settings(), "begin 2")
    assert answer["served"] is None
    assert (answer["attempt"] > 0, answer["newest"]) == (True, 1)


@pytest.mark.parametrize("room", [True, False])
def test_a_base_is_laid_where_there_is_room_for_the_whole_release_besides(
    light: World, monkeypatch: pytest.MonkeyPatch, *, room: bool
) -> None:
    light.say("t1", "something")
    light.night()
    free = 10**9 if room else sum(path.stat().st_size for path in (light.memory_dir / "releases" / "1").rglob("*"))
    monkeypatch.setattr("shared.delivery.receiver.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    answer = receiver.handle(light.settings(), "begin 2")
    base = light.memory_dir / "incoming" / f"2.{answer['attempt']}.base"
    assert (answer["base"], base.is_dir()) == (room, room)
    if room:
        part = base / "lexical" / "1.sqlite"
        assert part.stat().st_nlink == 1, "a copy: nobody writes to the release through it"
        assert part.read_bytes() == (light.memory_dir / "current" / "lexical" / "1.sqlite").read_bytes()
        assert not (base / "manifest.json").exists()
