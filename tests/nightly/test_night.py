"""The night over real Redis: what is archived, what is quarantined, what is flushed, what is found afterwards."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightly import pipeline
from nightly.archive.segments import read_archive, read_segment
from nightly.cli.main import named_weekdays
from nightly.cli.status import sentence
from nightly.night import target
from nightly.steps import export, flush
from shared.delivery.receiver import Receiver
from shared.errors import ArchiveDamaged, LeaseLost, LedgerMismatch, NightRunning, PublishFailed, ReleaseRefused
from shared.ranking.question import Match
from shared.release.manifest import read_manifest, verify
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.records import Tombstone
from tests.support.night.archives import texts
from tests.support.world import World


def test_a_night_archives_releases_and_flushes(world: World) -> None:
    world.say("t1", "the boiler code is 4711", chat_id="9912")
    world.say("t1", "Noted: 4711.", chat_id="9912", role="asst")
    world.say("t2", "the wifi is called heron", chat_id="-100123")
    (summary,) = world.night()
    assert (summary["exported"], summary["new"], summary["deleted"]) == (3, 3, 3)
    assert world.redis.keys("hcli:memory:*") == []
    manifest = verify((world.memory_dir / "current").resolve())
    assert manifest.turns_per_chat == {"9912": 2, "-100123": 1}
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


def test_reading_a_release_leaves_it_as_it_was(world: World) -> None:
    for number in range(30):
        world.say(f"t{number}", f"note number {number} about the garden")
    world.night()
    world.command("hmem", "search", "9912", "garden")
    world.command("hmem", "context", "9912", "garden")
    verify((world.memory_dir / "current").resolve())


def test_an_empty_night_changes_nothing(light: World) -> None:
    (first,) = light.night()
    assert (first["exported"], first["published"]) == (0, False)
    assert not (light.memory_dir / "current").exists()
    light.say("t1", "something")
    light.night()
    before = (light.memory_dir / "current").readlink()
    (empty,) = light.night()
    assert (empty["exported"], empty["published"], empty["deleted"]) == (0, False, 0)
    assert (light.memory_dir / "current").readlink() == before


def test_turns_written_during_the_night_survive(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("early", "said before the night")
    light.say("changed", "first wording")
    real_export = export.run

    def export_then_talk(night: Any, out: Path) -> dict[str, Any]:
        result = real_export(night, out)
        light.say("late", "said during the night")
        light.say("changed", "second wording")
        return result

    _replace_step(monkeypatch, "export", export_then_talk)
    (summary,) = light.night()
    assert (summary["deleted"], summary["changed_since"]) == (1, 1)
    assert sorted(light.redis.keys("hcli:memory:*")) == [b"hcli:memory:changed:user", b"hcli:memory:late:user"]
    monkeypatch.undo()
    (second,) = light.night()
    assert (second["new"], second["new_versions"]) == (1, 1)
    assert light.redis.keys("hcli:memory:*") == []
    assert texts(light)["changed:user#1"] == "second wording"
    kept = [
        record["value"] for run in (1, 2) for record in read_segment(light.night_dir / "archive" / f"seg-{run}.jsonl")
    ]
    assert sum("wording" in value for value in kept) == 2, "every version stays in the archive"


def _replace_step(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    from dataclasses import replace

    from nightly import pipeline

    steps = tuple(replace(step, run=function) if step.name == name else step for step in pipeline.STEPS)
    monkeypatch.setattr(pipeline, "STEPS", steps)


MALFORMED: dict[str, bytes] = {
    "bad-json:user": b'{"chat_id": "1", "role"',
    "a-list:user": b'["chat_id"]',
    "no-chat:user": b'{"role":"user","content":"x","timestamp":1,"task_id":"no-chat"}',
    "bool-chat:user": b'{"chat_id":true,"role":"user","content":"x","timestamp":1,"task_id":"bool-chat"}',
    "number-content:user": b'{"chat_id":"1","role":"user","content":7,"timestamp":1,"task_id":"number-content"}',
    "text-time:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":"noon","task_id":"text-time"}',
    "huge-time:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1e400,"task_id":"huge-time"}',
    "not-utf8:user": b'{"chat_id":"1","role":"user","content":"\xff\xfe","timestamp":1,"task_id":"not-utf8"}',
    "deep:user": b"[" * 100_000,
    "role-lies:user": b'{"chat_id":"1","role":"asst","content":"x","timestamp":1,"task_id":"role-lies"}',
    "task-lies:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1,"task_id":"other"}',
    "unknown-role:system": b'{"chat_id":"1","role":"system","content":"x","timestamp":1,"task_id":"unknown-role"}',
    "space in id:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1,"task_id":"space in id"}',
    "empty:user": b"",
}


def test_malformed_keys_are_quarantined_with_their_bytes(light: World) -> None:
    for name, value in MALFORMED.items():
        light.redis.set(f"hcli:memory:{name}", value)
    light.redis.hset("hcli:memory:a-hash:user", mapping={"chat_id": "1", "content": "in a hash"})
    light.redis.rpush("hcli:memory:a-list-key:asst", "in", "a", "list")
    light.redis.set(b"hcli:memory:\xff\xfe:user", b"key is no utf-8")
    light.say("good", "a sound turn", chat_id="1")
    (summary,) = light.night()
    bad = len(MALFORMED) + 3
    assert (summary["exported"], summary["new"], summary["quarantined"], summary["deleted"]) == (
        bad + 1,
        1,
        bad,
        bad + 1,
    )
    assert sum(summary["reasons"].values()) == bad
    lines = list(read_segment(light.night_dir / "archive" / "seg-1.jsonl"))
    quarantined = {_bytes(line, "key"): line for line in lines if line["kind"] == "quarantine"}
    for name, value in MALFORMED.items():
        line = quarantined[f"hcli:memory:{name}".encode()]
        assert _bytes(line, "value") == value
        assert line["reason"]
    hashed = quarantined[b"hcli:memory:a-hash:user"]
    light.redis.restore("restored", 0, _bytes(hashed, "value"))
    assert light.redis.hgetall("restored") == {b"chat_id": b"1", b"content": b"in a hash"}
    assert list(texts(light)) == ["good:user#1"]


def _bytes(line: dict[str, Any], name: str) -> bytes:
    return str(line[name]).encode() if name in line else base64.b64decode(line[f"{name}_base64"])


def test_quarantined_bytes_are_not_flushed_unless_archived(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof reads the archive from the disk: without the segment, nothing is deleted."""
    light.redis.set("hcli:memory:bad:user", b"{")
    light.say("good", "a sound turn")
    real_flush = flush.run

    def without_segment(night: Any, out: Path) -> dict[str, Any]:
        (night.archive_dir / "seg-1.jsonl").unlink()
        return real_flush(night, out)

    _replace_step(monkeypatch, "flush", without_segment)
    (summary,) = light.night()
    assert summary["deleted"] == 0
    assert light.redis.exists("hcli:memory:bad:user", "hcli:memory:good:user") == 2


def test_a_turn_of_a_megabyte_is_archived_and_chunked(light: World) -> None:
    sentence = "The quarterly report of section {} mentions the number {}. "
    long = "".join(sentence.format(i // 50, i) for i in range(19_000))
    assert len(long) > 1_000_000
    light.say("long", long)
    (summary,) = light.night()
    assert (summary["new"], summary["deleted"]) == (1, 1)
    found = texts(light)
    assert len(found) > 1000
    assert max(map(len, found.values())) <= 900
    assert " ".join(" ".join(found.values()).split()) == " ".join(long.split())
    archived = next(read_segment(light.night_dir / "archive" / "seg-1.jsonl"))
    assert json.loads(archived["value"])["content"] == long


ODD_CHATS = ["-100123", "../../etc", "a/b", "*", "x" * 200, "..", "Case", "case", "чат", "c1", "a b", "%00", 'q"uote']


def test_odd_chat_ids_keep_to_themselves(light: World) -> None:
    for number, chat in enumerate(ODD_CHATS):
        light.say(f"t{number}", f"the canary of this chat is canary{number:03}", chat_id=chat)
    light.night()
    release = (light.memory_dir / "current").resolve()
    assert {path.parent for path in release.rglob("*_summary.txt")} == {release / "summaries"}
    assert len(list((release / "summaries").iterdir())) == len(ODD_CHATS)
    opened = OpenRelease(light.settings(), release)
    try:
        for number, chat in enumerate(ODD_CHATS):
            assert [hit.chunk.chat_id for hit in opened.recall(Query(chat, "canary", 50)).hits] == [chat]
            assert f"canary{number:03}" in (opened.summary(chat) or "")
            for other in range(len(ODD_CHATS)):
                hits = opened.recall(Query(chat, f'canary{other:03} OR chat_id:* "c{other + 1}"', 50)).hits
                assert all(hit.chunk.chat_id == chat for hit in hits)
        assert opened.recall(Query("nobody", "canary", 50)).hits == []
        assert opened.summary("nobody") is None
    finally:
        opened.close()


@pytest.mark.parametrize("chat", ["", "   ", "a\nb", "x" * 257, "nul\x00", "0", " 7"])
def test_chat_ids_that_are_none_are_refused(light: World, chat: str) -> None:
    light.redis.set("hcli:memory:t:user", json.dumps({"chat_id": chat, "role": "user", "content": "x", "timestamp": 1}))
    (summary,) = light.night()
    assert (summary["quarantined"], summary["new"]) == (1, 0)
    if "\x00" not in chat:
        assert light.command("hmem", "search", "--", chat, "x", check=False).returncode == 24


def test_tombstones_are_applied_for_ever(light: World) -> None:
    light.say("t1", "keep the cat", timestamp=100.0)
    light.say("t2", "forget the dog", timestamp=200.0)
    light.say("t3", "forget the fish", chat_id="77", timestamp=100.0)
    light.night()
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 300.0, turn_ids=frozenset({"t2:user"})).to_json())
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s2", "77", 300.0).to_json())
    (summary,) = light.night()
    assert summary["published"]
    assert list(texts(light)) == ["t1:user#1"]
    light.redis.delete("hcli:mem:tombstones")
    light.say("t2", "forget the dog, said again by a retry", timestamp=201.0)
    light.say("t4", "a new start", chat_id="77", timestamp=400.0)
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t4:user#1"]


def test_an_unreadable_tombstone_is_refused_and_stops_nothing(light: World) -> None:
    light.say("t1", "something")
    light.redis.rpush("hcli:mem:tombstones", b"{}")
    (night,) = light.night()
    assert night["refused_tombstones"] == {"it cannot be read: task_id must match [A-Za-z0-9_-]{1,100}": 1}
    assert "refused: 1 × a tombstone in Redis (it cannot be read" in sentence(night)
    assert list(texts(light)) == ["t1:user#1"]
    assert not light.redis.exists("hcli:memory:t1:user")


def test_a_turn_cannot_move_to_another_chat(light: World) -> None:
    light.say("t1", "mine", chat_id="9912")
    light.night()
    light.say("t1", "now in another chat", chat_id="77")
    (summary,) = light.night()
    assert summary["quarantined"] == 1
    assert texts(light) == {"t1:user#1": "mine"}


def test_a_damaged_segment_stops_the_night_and_is_named(light: World) -> None:
    light.say("t1", "something old")
    light.night()
    segment = light.night_dir / "archive" / "seg-1.jsonl"
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    light.say("t2", "something new")
    with pytest.raises(ArchiveDamaged, match=r"seg-1\.jsonl"):
        light.night()
    assert light.redis.exists("hcli:memory:t2:user")
    assert light.command("hmem-night", "verify", check=False).returncode == ArchiveDamaged.exit_code


def test_a_fresh_night_host_cannot_shrink_memory(light: World) -> None:
    light.say("t1", "years of talk")
    light.night()
    light.environment["HMEM_NIGHT_DIR"] = str(light.root / "another-night")
    light.say("t2", "one day of talk")
    with pytest.raises(ReleaseRefused, match=r"seg-1\.jsonl"):
        light.night()
    assert list(texts(light)) == ["t1:user#1"]
    assert light.redis.exists("hcli:memory:t2:user")


def test_an_overtaken_night_is_given_up_and_loses_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "before")
    light.night()

    def fail(night: Any, out: Path) -> dict[str, Any]:
        raise PublishFailed("the network is away")

    light.say("t2", "between")
    _replace_step(monkeypatch, "publish", fail)
    with pytest.raises(PublishFailed):
        light.night()
    monkeypatch.undo()
    _renumber(light, 7)
    (summary,) = light.night()
    assert summary["run"] == 8
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]
    assert light.redis.keys("hcli:memory:*") == []


def _renumber(world: World, run: int) -> None:
    """The current release gets the number of another run."""
    current, other = world.memory_dir / "current", world.memory_dir / "releases" / str(run)
    current.resolve().rename(other)
    (other / "manifest.json").write_bytes(replace(read_manifest(other), run=run).to_json())
    current.unlink()
    current.symlink_to(f"releases/{run}")


@pytest.mark.parametrize("inside", [True, False])
def test_nobody_keeps_a_second_name_for_a_file_of_a_release(
    light: World, monkeypatch: pytest.MonkeyPatch, *, inside: bool
) -> None:
    """By it the file could be changed after it was verified. What is served is a copy, which has no other name."""
    light.say("t1", "something")
    real = target.transfer

    def link(source: Path, destination: str) -> int:
        moved = real(source, destination)
        second = Path(destination).parent / "mine" if inside else light.root / "mine"
        os.link(Path(destination) / "lexical" / "1.sqlite", second)
        return moved

    monkeypatch.setattr(target, "transfer", link)
    light.night()
    assert (light.memory_dir / "current" / "lexical" / "1.sqlite").stat().st_nlink == 1
    assert not list((light.memory_dir / "incoming").iterdir())


def test_a_changed_release_is_refused_before_the_switch(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "something")
    real = target.transfer

    def damage(source: Path, destination: str) -> int:
        moved = real(source, destination)
        with (Path(destination) / "lexical" / "1.sqlite").open("r+b") as handle:
            handle.seek(100)
            handle.write(b"\x00" * 8)
        return moved

    monkeypatch.setattr(target, "transfer", damage)
    with pytest.raises(ReleaseRefused, match=r"lexical/1\.sqlite was changed"):
        light.night()
    assert not (light.memory_dir / "current").exists()
    assert light.redis.exists("hcli:memory:t1:user")
    monkeypatch.undo()
    light.night()
    assert list(texts(light)) == ["t1:user#1"]
    assert not list((light.memory_dir / "incoming").iterdir())


def test_a_dispatcher_that_does_not_follow_switches_back(light: World) -> None:
    light.say("t1", "something")
    light.redis.sadd("hcli:mem:workers", "deaf")
    light.redis.set("hcli:mem:lease:deaf", "1", ex=60)
    with pytest.raises(PublishFailed, match="deaf did not take up release"):
        light.night(publish_wait=0.3)
    assert not (light.memory_dir / "current").is_symlink()
    assert light.redis.exists("hcli:memory:t1:user")


def test_a_second_night_is_told_to_wait(light: World) -> None:
    from nightly.night.lease import only_night

    with only_night(light.settings()):
        done = light.command("hmem-night", "run", check=False)
    assert done.returncode == NightRunning.exit_code == 75
    light.redis.set("hcli:mem:night:owner", "5 elsewhere /dir 1", ex=60)
    with pytest.raises(NightRunning, match="elsewhere"):
        light.night()


def test_a_failed_restart_is_an_alarm_and_not_undone(light: World) -> None:
    light.say("t1", "something")
    done = light.command("hmem-night", "run", check=False, RESTART_COMMAND="false")
    assert done.returncode == 18
    assert list(texts(light)) == ["t1:user#1"]
    assert light.redis.keys("hcli:memory:*") == []
    marker = light.root / "restarted"
    light.command("hmem-night", "run", RESTART_COMMAND=f"touch {marker}")
    assert marker.exists()


def test_a_value_that_comes_back_is_the_last_version(light: World) -> None:
    for content in ("version A", "version B", "version A"):
        light.say("t1", content)
        (summary,) = light.night()
    assert summary["new_versions"] == 1
    assert texts(light) == {"t1:user#1": "version A"}


def test_the_highest_run_wins_past_the_ninth(light: World) -> None:
    light.say("t1", "version 1")
    light.night()
    _renumber(light, 8)
    for number in (9, 10, 11):
        light.say("t1", f"version {number}")
        (summary,) = light.night()
        assert summary["run"] == number
        assert texts(light) == {"t1:user#1": f"version {number}"}
    archived = {path.name for path in (light.night_dir / "archive").glob("seg-*.jsonl")}
    assert archived == {f"seg-{number}.jsonl" for number in (1, 9, 10, 11)}


def test_a_restored_segment_lets_the_same_night_go_on(light: World) -> None:
    light.say("t1", "old")
    light.night()
    segment, away = light.night_dir / "archive" / "seg-1.jsonl", light.root / "away"
    segment.rename(away)
    light.say("t2", "new")
    with pytest.raises(ReleaseRefused):
        light.night()
    assert light.command("hmem-night", "verify", check=False).returncode == ArchiveDamaged.exit_code
    away.rename(segment)
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]


def test_nights_go_on_while_the_restart_command_fails(light: World) -> None:
    for day in (1, 2):
        light.say(f"t{day}", "something")
        assert light.command("hmem-night", "run", check=False, RESTART_COMMAND="false").returncode == 18
        assert len(texts(light)) == day
    assert light.redis.keys("hcli:memory:*") == []


def test_a_night_that_lost_its_lease_changes_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped for a while, it wakes up before the switch, and before the flush."""
    for step, released in (("publish", False), ("flush", True)):
        light.say(f"{step}-turn", "something")
        real = next(s.run for s in pipeline.STEPS if s.name == step)

        def overtaken(night: Any, out: Path, real: Any = real) -> dict[str, Any]:
            light.redis.set("hcli:mem:night:owner", "999 elsewhere /dir 1", ex=60)
            result: dict[str, Any] = real(night, out)
            return result

        _replace_step(monkeypatch, step, overtaken)
        with pytest.raises(LeaseLost):
            light.night()
        monkeypatch.undo()
        assert light.redis.exists(f"hcli:memory:{step}-turn:user")
        assert (light.memory_dir / "current").exists() == released
        light.redis.delete("hcli:mem:night:owner")
        light.night()


def test_a_release_that_shrinks_a_chat_is_refused(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from nightly.archive import segments

    light.say("t1", "one")
    light.say("t2", "two")
    light.night()
    light.say("t3", "three", chat_id="77")
    real = segments.Archive.turns
    monkeypatch.setattr(segments.Archive, "turns", lambda archive: real(archive)[:-1])
    monkeypatch.setattr(segments.Archive, "forgotten_per_chat", lambda archive: {})
    with pytest.raises(LedgerMismatch, match="2 archived are not 1 with chunks"):
        light.night()
    monkeypatch.setattr(segments.Archive, "turns_per_chat", lambda archive: Counter(t.chat_id for t in archive.turns()))
    with pytest.raises(ReleaseRefused, match="would shrink"):
        light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]


def test_a_release_that_kills_its_reader_is_not_switched_to(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.delivery import receiver

    light.say("t1", "one")
    monkeypatch.setattr(receiver, "TRYOUT_MODULE", "tests.support.processes.dies")
    with pytest.raises(ReleaseRefused, match="killed by signal 11"):
        light.night()
    assert not (light.memory_dir / "current").exists()
    assert light.redis.exists("hcli:memory:t1:user")


def test_a_lower_run_is_refused(light: World) -> None:
    light.say("t1", "one")
    light.night()
    with pytest.raises(ReleaseRefused, match="not above the current"):
        Receiver(light.settings(), light.memory_dir).begin(1)


def test_flush_deletes_only_what_the_release_in_use_holds(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "one")
    light.night()
    light.say("t2", "two")
    real = flush.run

    def after_a_rollback(night: Any, out: Path) -> dict[str, Any]:
        current = light.memory_dir / "current"
        current.unlink()
        current.symlink_to("releases/1")
        return real(night, out)

    _replace_step(monkeypatch, "flush", after_a_rollback)
    (summary,) = light.night()
    assert (summary["deleted"], summary["unproven"]) == (0, 1)
    assert light.redis.exists("hcli:memory:t2:user")


def test_a_lookup_by_meaning_that_is_late_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.vectors.sqlite.index import SqliteBackend

    world.say("t1", "the heron at the pond")
    world.night()
    opened = OpenRelease(world.settings(), (world.memory_dir / "current").resolve())
    opened.open_vectors()

    def slow(*_: object) -> list[Match]:
        time.sleep(1)
        return []

    monkeypatch.setattr(SqliteBackend, "similarities", slow)
    recalled = opened.recall(Query("9912", "heron", 5, deadline_seconds=0.05))
    assert [hit.chunk.chunk_id for hit in recalled.hits] == ["t1:user#1"]
    assert "no answer within 0.050 s" in recalled.degraded[0]
    opened.close()


def test_a_damaged_summary_costs_the_summary_alone(light: World) -> None:
    light.say("t1", "the heron at the pond")
    light.night()
    next((light.memory_dir / "current" / "summaries").iterdir()).write_bytes(b"\xff\xfe")
    found = json.loads(light.command("hmem", "context", "9912", "where was the heron?", "--json").stdout)
    assert [part["name"] for part in found["parts"]] == ["recalled"]


def test_memory_that_is_not_kept_up_is_noticed(light: World) -> None:
    light.say("t1", "something")
    light.night()
    assert light.status().returncode == 0
    light.redis.set("hcli:mem:night:last", json.dumps({"run": 1, "finished_at": time.time() - 37 * 3600}))
    done = light.status(check=False)
    assert done.returncode == 21
    assert "37 hours old" in done.stderr
    light.night()
    (light.memory_dir / "current").unlink()
    assert "is missing" in light.status(check=False).stderr


def test_a_release_that_was_damaged_is_built_anew_by_the_next_night(light: World) -> None:
    light.say("t1", "something")
    light.night()
    (light.memory_dir / "current" / "lexical" / "1.sqlite").write_bytes(b"")
    (summary,) = light.night()
    assert (summary["exported"], summary["published"]) == (0, True)
    assert list(texts(light)) == ["t1:user#1"]


def test_a_release_that_fails_its_trial_is_never_named(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.delivery import receiver

    light.say("t1", "one")
    monkeypatch.setattr(receiver, "TRYOUT_MODULE", "tests.support.processes.dies")
    with pytest.raises(ReleaseRefused):
        light.night()
    assert list((light.memory_dir / "releases").iterdir()) == []


def test_a_rollback_to_a_release_that_is_gone_is_refused(light: World) -> None:
    for number in (1, 2):
        light.say(f"t{number}", "something")
        light.night()
    away = light.memory_dir / "releases" / "1"
    away.rename(light.root / "away")
    with pytest.raises(ReleaseRefused):
        Receiver(light.settings(), light.memory_dir).rollback(2)
    assert (light.memory_dir / "current").exists()
    (light.root / "away").rename(away)
    Receiver(light.settings(), light.memory_dir).rollback(2)
    assert (light.memory_dir / "current").readlink() == Path("releases/1")


@pytest.mark.parametrize("command", ["systemctl restart hmem-dispatcher", "docker restart hcli-memory-dispatcher-1"])
def test_the_restart_command_is_run_as_it_is_written(light: World, command: str) -> None:
    """Stand-ins for both programs: what they are asked is what counts."""
    program, *arguments = command.split()
    stand_in = light.root / program
    stand_in.write_text(f'#!/bin/sh\necho "$@" > {light.root}/asked\n')
    stand_in.chmod(0o755)
    light.command("hmem-night", "run", RESTART_COMMAND=command, PATH=f"{light.root}:{light.variables()['PATH']}")
    assert (light.root / "asked").read_text().split() == arguments


def test_a_restart_command_that_leaves_a_daemon_behind_does_not_hold_the_night(light: World) -> None:
    started = time.monotonic()
    light.command("hmem-night", "run", RESTART_COMMAND="sh -c 'setsid sleep 20 & echo started'", RESTART_TIMEOUT="15")
    assert time.monotonic() - started < 15


def test_weekdays_in_cron_mean_what_cron_means() -> None:
    assert named_weekdays("0 3 * * 0") == "0 3 * * sun"
    assert named_weekdays("0 3 * * 1-5,7") == "0 3 * * mon,tue,wed,thu,fri,sun"
    assert named_weekdays("*/5 3 * * *") == "*/5 3 * * *"
    assert named_weekdays("0 3 * * mon-fri") == "0 3 * * mon-fri"


def test_an_archived_night_does_not_export_again(light: World) -> None:
    light.say("t1", "something")
    light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="publish:begun")
    light.say("t2", "something else")
    assert light.command("hmem-night", "run", "--from", "export", check=False).returncode == 24
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]


def test_a_kill_after_the_switch_and_other_settings_keep_the_release(light: World) -> None:
    light.say("t1", "something")
    light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="publish:switched")
    light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="publish:switched", CHAT_TIMEZONE="Asia/Tokyo")
    assert list(texts(light)) == ["t1:user#1"]
    light.night(chat_timezone="Asia/Tokyo")
    assert read_manifest((light.memory_dir / "current").resolve()).timezone == "Asia/Tokyo"


def test_an_older_version_under_a_tombstone_is_no_shrinking(light: World) -> None:
    light.say("t1", "later", timestamp=400.0)
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 300.0).to_json())
    light.night()
    light.say("t1", "earlier", timestamp=200.0)
    light.night()
    assert texts(light) == {}


def test_old_releases_are_pruned_and_what_the_night_began_from_stays_with_its_parent(light: World) -> None:
    for number in range(5):
        light.say(f"t{number}", f"note {number}")
        light.night(releases_kept=2)
    assert sorted(int(p.name) for p in (light.memory_dir / "releases").iterdir()) == [3, 4, 5]
    assert read_manifest((light.memory_dir / "current").resolve()).parent == 4


def test_status_and_dry_run_say_what_is_there(light: World) -> None:
    light.say("t1", "something")
    plan = json.loads(light.command("hmem-night", "run", "--dry-run", "--json").stdout)
    assert plan == {"unfinished_night": None, "keys": 1, "not_archived": 1}
    assert not light.night_dir.exists()
    light.night()
    (night,) = json.loads(light.command("hmem-night", "status", "--json").stdout)
    assert night["summary"]["new"] == 1
    assert "1 new" in light.command("hmem-night", "status").stdout
    assert json.loads(light.command("hmem-night", "verify", "--json").stdout)["turns"] == 1
    assert read_archive(light.night_dir / "archive").turns()[0].content == "something"
