"""The night over real Redis, from end to end: what it deletes and leaves, whose turn it is, the restart command, and what the commands say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightly import pipeline
from nightly.archive.segments import Segment
from nightly.steps import export
from shared.errors import LeaseLost, NightRunning
from shared.release.manifest import verify
from tests.support.night.archives import texts
from tests.support.night.indexes.chat_tables import counted
from tests.support.night.steps import replace_step
from tests.support.night.whole_archive import read_archive
from tests.support.world import World


@pytest.mark.slow
def test_a_night_archives_releases_and_flushes(world: World) -> None:
    world.say("t1", "the boiler code is 4711", chat_id="9912")
    world.say("t1", "Noted: 4711.", chat_id="9912", role="asst")
    world.say("t2", "the wifi is called heron", chat_id="-100123")
    (summary,) = world.night()
    assert (summary["exported"], summary["new"], summary["deleted"]) == (3, 3, 3)
    assert world.redis.keys("hcli:memory:*") == []
    manifest = verify((world.memory_dir / "current").resolve())
    assert counted((world.memory_dir / "current").resolve(), "turns") == {"9912": 2, "-100123": 1}
    assert (manifest.chats, manifest.turns) == (2, 3)
    assert manifest.embedding is not None
    assert manifest.indexes == ["sqlite"]
    hits = json.loads(world.command("hmem", "search", "9912", "what is the code of the boiler?", "--json").stdout)[
        "hits"
    ]
    assert hits[0]["turn_ids"] == ["t1:user"]
    assert hits[0]["scores"]["meaning"] is not None
    assert all("heron" not in hit["text"] for hit in hits)
    answer = next(hit for hit in hits if hit["turn_ids"] == ["t1:asst"])
    assert answer["question"] == "the boiler code is 4711"


def test_an_empty_night_changes_nothing(light: World) -> None:
    (first,) = light.night()
    assert (first["exported"], first["published"]) == (0, False)
    assert not (light.memory_dir / "current").exists()
    light.say("t1", "something")
    light.night()
    before = (light.memory_dir / "current").readlink()
    (empty,) = light.night()
    assert (empty["exported"], empty["published"], empty["deleted"]) == (0, False, 0)
    assert "nothing new to release" in light.command("hmem-night", "run").stdout
    assert (light.memory_dir / "current").readlink() == before


@pytest.mark.slow
def test_turns_written_during_the_night_survive(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("early", "said before the night")
    light.say("changed", "first wording")
    real_export = export.run

    def export_then_talk(night: Any, out: Path) -> dict[str, Any]:
        result = real_export(night, out)
        light.say("late", "said during the night")
        light.say("changed", "second wording")
        return result

    replace_step(monkeypatch, "export", export_then_talk)
    (summary,) = light.night()
    assert (summary["deleted"], summary["changed_since"]) == (1, 1)
    assert sorted(light.redis.keys("hcli:memory:*")) == [b"hcli:memory:changed:user", b"hcli:memory:late:user"]
    monkeypatch.undo()
    (second,) = light.night()
    assert (second["new"], second["new_versions"]) == (1, 1)
    assert light.redis.keys("hcli:memory:*") == []
    assert texts(light)["changed:user#1"] == "second wording"
    kept = [record["value"] for run in (1, 2) for record in Segment(light.night_dir / "archive" / f"seg-{run}.jsonl")]
    assert sum("wording" in value for value in kept) == 2, "every version stays in the archive"


def test_a_second_night_is_told_to_wait(light: World) -> None:
    from nightly.night.lease import only_night

    with only_night(light.settings()):
        done = light.command("hmem-night", "run", check=False)
    assert done.returncode == NightRunning.exit_code == 75
    light.redis.set("hcli:mem:night:owner", "5 elsewhere /dir 1", ex=60)
    with pytest.raises(NightRunning, match="elsewhere"):
        light.night()


@pytest.mark.slow
def test_a_failed_restart_is_an_alarm_and_not_undone(light: World) -> None:
    for day in (1, 2):
        light.say(f"t{day}", "something")
        assert light.command("hmem-night", "run", check=False, RESTART_COMMAND="false").returncode == 18
        assert len(texts(light)) == day, "nights go on while it fails"
        assert light.redis.keys("hcli:memory:*") == []
    marker = light.root / "restarted"
    light.command("hmem-night", "run", RESTART_COMMAND=f"touch {marker}")
    assert marker.exists()


@pytest.mark.slow
def test_a_night_that_lost_its_lease_changes_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped for a while, it wakes up before the switch, and before the flush."""
    for step, released in (("publish", False), ("flush", True)):
        light.say(f"{step}-turn", "something")
        real = next(s.run for s in pipeline.STEPS if s.name == step)

        def overtaken(night: Any, out: Path, real: Any = real) -> dict[str, Any]:
            light.redis.set("hcli:mem:night:owner", "999 elsewhere /dir 1", ex=60)
            result: dict[str, Any] = real(night, out)
            return result

        replace_step(monkeypatch, step, overtaken)
        with pytest.raises(LeaseLost):
            light.night()
        monkeypatch.undo()
        assert light.redis.exists(f"hcli:memory:{step}-turn:user")
        assert (light.memory_dir / "current").exists() == released
        light.redis.delete("hcli:mem:night:owner")
        light.night()


def test_status_and_dry_run_say_what_is_there(light: World) -> None:
    light.say("t1", "something")
    plan = json.loads(light.command("hmem-night", "run", "--dry-run", "--json").stdout)
    assert plan == {"unfinished_night": None, "keys": 1, "not_archived": 1}
    assert not light.night_dir.exists()
    light.night()
    (night,) = json.loads(light.command("hmem-night", "status", "--json").stdout)
    assert night["summary"]["new"] == 1
    assert "9912" not in json.dumps(night), "a night of thousands of chats is read as fast as one of a few"
    (night,) = json.loads(light.command("hmem-night", "status", "--json", "--chats").stdout)
    assert [(one["chat"], one["archived"], one["keywords"]) for one in night["chats"]] == [("9912", 1, 1)]
    assert "1 new" in light.command("hmem-night", "status").stdout
    light.say("t2", "something else")
    light.night()
    shown = {
        options: [one["run"] for one in json.loads(light.command("hmem-night", "status", "--json", *options).stdout)]
        for options in ((), ("--nights", "1"), ("--run", "1"))
    }
    assert shown == {(): [1, 2], ("--nights", "1"): [2], ("--run", "1"): [1]}
    assert "Night 2 done" in light.command("hmem-night", "status", "--nights", "1").stdout
    assert "Night 1 done" not in light.command("hmem-night", "status", "--nights", "1").stdout
    assert "no such night" in light.command("hmem-night", "status", "--run", "7", check=False).stderr
    assert json.loads(light.command("hmem-night", "verify", "--json").stdout)["turns"] == 2
    assert read_archive(light.night_dir / "archive").turns()[0].content == "something"
