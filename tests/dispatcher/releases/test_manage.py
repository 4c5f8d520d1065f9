"""`hmem release list`, `verify`, `rollback` and `unpin`, and what the night host is told of a release: real nights, real dispatchers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dispatcher.releases import manage
from shared.delivery import receiver
from shared.errors import InvalidInput, ReleaseRefused
from shared.release import retention
from shared.release.manifest import read_manifest
from shared.release.retention import read_pin, release_runs
from shared.turns.records import Tombstone
from tests.support.day.hcli_bot import Bot
from tests.support.day.releases import current, damage, nights, silent
from tests.support.machine import wait_for
from tests.support.world import World


@pytest.mark.slow
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
    assert "3 turns of 1 chat" in lines[2]
    assert lines[2].endswith("current")


@pytest.mark.slow
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


def test_before_the_first_release_a_rollback_says_what_makes_one(light: World) -> None:
    done = light.command("hmem", "release", "rollback", "--yes", check=False)
    assert (done.returncode, done.stderr) == (24, "There is no release yet. hmem-night run builds the first.\n")


@pytest.mark.slow
def test_a_rollback_is_served_and_pins_and_nights_go_on_beside_it_until_it_is_lifted(light: World) -> None:
    nights(light, 2)
    running = light.start_dispatcher()
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"2"], "release 2 to be served")
    asked = light.command("hmem", "release", "rollback", check=False)
    assert (asked.returncode, asked.stderr) == (
        24, "Serve release 1 instead of 2, and pin it? Nothing was changed. Run it again with --yes.\n"
    )  # fmt: skip
    said = light.command("hmem", "release", "rollback", "--yes").stdout
    assert "Release 1 is current instead of 2, and pinned." in said
    until = "Until hmem release rollback --unpin, nights publish their releases without switching to them"
    assert f"{until}, and delete nothing from Redis." in said
    assert current(light) == 1
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"1"], "release 1 to be served")
    assert Bot(light.redis).ask("what about the boiler?", 9913)
    running.stop()
    light.redis.delete(*light.redis.keys("hcli:memory:*"))
    nights(light, 1, first=3)
    assert current(light) == 1
    assert light.redis.exists("hcli:memory:t3:user"), "nothing is deleted while another release is pinned"
    listed = json.loads(light.command("hmem", "release", "list", "--json").stdout)["releases"]
    assert [one["marks"] for one in listed if one["run"] == 1] == [["current", "pinned"]]
    assert light.command("hmem", "release", "rollback", "--unpin").stdout.startswith("Release 1 is no longer pinned.")
    assert current(light) == 1
    nights(light, 1, first=4)
    assert current(light) == max(release_runs(light.memory_dir)) > 2
    assert light.redis.keys("hcli:memory:*") == []
    assert read_manifest((light.memory_dir / "current").resolve()).turns == 4


@pytest.mark.slow
def test_a_rollback_that_would_do_harm_changes_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(light, 3)
    newer = light.memory_dir / "releases" / "1" / "manifest.json"
    newer.write_text(json.dumps(json.loads(newer.read_bytes()) | {"format_version": 99}))
    for run, words in ((1, "has format 99"), (None, "killed by signal 11")):
        monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.dies")
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


@pytest.mark.slow
def test_what_was_forgotten_does_not_come_back_by_a_rollback(light: World) -> None:
    nights(light, 2)
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 1.0, turn_ids=frozenset({"t1:user"})).to_json())
    light.night()
    nights(light, 1, first=4)
    newest = current(light)
    applied = read_manifest((light.memory_dir / "current").resolve()).parent
    done = light.command("hmem", "release", "rollback", "--yes", "2", check=False)
    assert done.returncode == 16
    assert f"the forgotten turns would come back. Choose a later one, such as {newest}" in done.stderr
    assert current(light) == newest
    manifest = light.memory_dir / "releases" / str(newest) / "manifest.json"
    manifest.write_text("{")  # which tombstones it had cannot be read now
    done = light.command("hmem", "release", "rollback", "--yes", "2", check=False)
    assert f"such as {applied}" in done.stderr
    light.command("hmem", "release", "rollback", "--yes", str(applied))
    assert current(light) == applied


@pytest.mark.slow
@pytest.mark.parametrize("how", ["dangling", "damaged", "missing"])
def test_a_rollback_repairs_a_current_that_cannot_be_read(light: World, how: str) -> None:
    nights(light, 2)
    link, place = light.memory_dir / "current", light.memory_dir / "releases" / "2"
    if how == "dangling":
        shutil.move(place, light.root / "away")
        listed = light.command("hmem", "release", "list")
        assert (listed.stdout.split()[0], "points to releases/2, which does not exist" in listed.stderr) == ("1", True)
    elif how == "damaged":
        (place / "manifest.json").write_bytes(b"")
    else:
        link.unlink()
    done = light.command("hmem", "release", "rollback", "--yes", check=False)
    assert done.returncode == 24
    assert "hmem release rollback RUN" in done.stderr
    assert json.loads(light.command("hmem", "release", "rollback", "--yes", "1", "--json").stdout)["current"] == 1
    assert current(light) == 1
    assert light.command("hmem", "release", "verify").returncode == 0


@pytest.mark.slow
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
    assert light.command("hmem", "release", "rollback", "--unpin", check=False).returncode == 24, "no memory directory"
    nights(light, 1)
    assert "No release is pinned" in light.command("hmem", "release", "rollback", "--unpin").stdout
    (light.memory_dir / "pinned").write_text("{")
    with pytest.raises(ReleaseRefused, match="hmem release rollback --unpin"):
        read_pin(light.memory_dir)
    assert "is damaged" in light.status(check=False).stderr
    assert json.loads(light.command("hmem", "release", "rollback", "--unpin", "--json").stdout) == {
        "unpinned": True,
        "run": None,
    }
    assert read_pin(light.memory_dir) is None
